/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions of the kernel by an address within them. */
#ifndef XDPLAB_ENDS_SYMBOLS_H
#define XDPLAB_ENDS_SYMBOLS_H

#include <stddef.h>
#include <linux/types.h>

/* The function that has @address, by /proc/kallsyms; "" where it is not told. */
void symbol_name(__u64 address, char *name, size_t size);

#endif
