/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What xdpends counts; what ends.bpf.c and user space share. */
#ifndef XDPLAB_ENDS_H
#define XDPLAB_ENDS_H

#include <linux/types.h>

#define ENDS_PORTS 8
/* Kinds of ends that are told apart; further ones are not counted. */
#define ENDS_KINDS 4096

enum end_kind {
	END_STACK,     /* handed to the kernel's own stack */
	END_EXCEPTION, /* a: action that was not carried out */
	END_REDIRECT,  /* a: id of the map, b: key, error; 0: accepted */
	END_SENT,      /* a: ifindex of a devmap's target, 0: elsewhere */
	END_NOT_TAKEN, /* the same, of frames that it refused, error */
	END_DROP,      /* a: enum skb_drop_reason, at: address in the kernel */
	END_KINDS,
};

struct end {
	__u64 at;
	__u32 kind;
	__u32 ifindex; /* where the frame came in; of END_DROP: had come to */
	__u32 a;
	__u32 b;
	__s32 error;
	__u32 zero;
};

#endif
