/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Addresses, and the lists of the object "nf".  Each returns 0 or -errno
 * after one line on stderr.
 */
#ifndef NF_LISTS_H
#define NF_LISTS_H

#include "nf_options.h"

#define NF_WHERE   "nf"
#define NF_ADDRESS 16 /* bytes of the longest text */
#define NF_PREFIX  19

/* @ip is in host byte order. */
int nf_read_address(const char *text, const char *where, const char *key,
		    __u32 *ip);
int nf_read_prefix(const char *text, const char *where, const char *key,
		   __u32 *ip, __u32 *bits);

/* A list that was not given (NULL) is empty. */
int nf_read_hops(const json_t *array, struct nf_setup *s);
int nf_read_acl(const json_t *array, struct nf_options *o);
int nf_read_routes(const json_t *array, struct nf_options *o);

#endif
