/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The XDP form of the network functions, and its maps. */
#ifndef NF_PROGRAM_H
#define NF_PROGRAM_H

#include "nf_tables.h"
#include "program.h"

struct nf_program {
	struct nf_bpf *skel;
	struct nf_entries entries;
	/* entries that the kernel took */
	__u32 in_acl;
	__u32 in_sessions;
	__u32 in_routes;
};

/*
 * Fill the tables, load what place and functions need, and attach it to the
 * ports; programs[i] tells how.  Returns 0 or -errno after one line on stderr.
 */
int nf_program_open(struct nf_program *p, const struct options *o,
		    struct program *programs);
/* Sum over the CPUs; zeroes without a program. */
int nf_program_counters(const struct nf_program *p, struct nf_counters *sum);
/* Entries that the kernel's tables took; null where there are none. */
json_t *nf_program_tables(const struct nf_program *p);
void nf_program_close(struct nf_program *p);

#endif
