/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The XDP program of a port. */
#ifndef XSK_PROGRAM_H
#define XSK_PROGRAM_H

#include "io.h"
#include "options.h"

struct program {
	struct bpf_object *object;
	struct bpf_program *prog;
	int link_fd;
	int sockets_fd;	 /* map of sockets, or -1 */
	__u32 first_key; /* in it, of this port */
	__u32 id;
	bool hardware;	    /* loaded is the program with the card's stamps */
	const char *stamps; /* on frames: where they come from */
	char reason[200];   /* so, and why not from the card */
	const char *mode; /* as the kernel says: "native", "generic", "none" */
};

/*
 * Load the program of @port and attach it, in the port's namespace.  Returns
 * 0 or -errno after one line on stderr.
 */
int program_open(struct program *p, const struct options *o,
		 const struct port *port);
/* Attach p->prog, which is loaded; as program_open(). */
int program_attach(struct program *p, const struct options *o,
		   const struct port *port);
int program_add(struct program *p, const struct options *o,
		const struct io *io);
/*
 * Do the clocks of the cards still follow CLOCK_TAI?  Once one does not, stamps
 * of its program says that the card's are not to be trusted.
 */
void programs_check_clocks(struct program *programs, const struct options *o);
void program_close(struct program *p);

#endif
