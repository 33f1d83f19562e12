/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Static probes (provider "xsk"): a nop each until a tracer puts a breakpoint
 * there.  The list with the arguments is in bpf/README.md.
 */
#ifndef XSK_PROBES_H
#define XSK_PROBES_H

#include <sys/sdt.h>

#define PROBE1(name, a)	      STAP_PROBE1(xsk, name, a)
#define PROBE2(name, a, b)    STAP_PROBE2(xsk, name, a, b)
#define PROBE3(name, a, b, c) STAP_PROBE3(xsk, name, a, b, c)

#endif
