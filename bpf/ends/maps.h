/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the maps of an XDP program hold. */
#ifndef XDPLAB_ENDS_MAPS_H
#define XDPLAB_ENDS_MAPS_H

#include <linux/types.h>

/* As libbpf calls it; "unknown". */
const char *map_type_name(__u32 type);

/*
 * JSON objects, separated by commas, of a program's maps and of those of the
 * programs that a libxdp dispatcher calls: name, type, entries (null: the kernel
 * does not tell).  Of an array those that are not zero are counted.  Maps of
 * constants and variables are left out.
 */
void print_maps(__u32 prog_id);

#endif
