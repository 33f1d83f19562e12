/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the network functions tell, in the kernel and in user space. */
#ifndef ROLE_NF_H
#define ROLE_NF_H

#include "nf_program.h"

struct run;

/* Settings and tables in use. */
json_t *nf_in_use(const struct run *run);
/* Frames by verdict: of the XDP program, and of the threads together. */
json_t *nf_counted(const struct run *run);

#endif
