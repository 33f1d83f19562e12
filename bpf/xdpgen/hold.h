/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* XDP programs that the kernel takes no time to attach and run again. */
#ifndef XDPGEN_HOLD_H
#define XDPGEN_HOLD_H

/*
 * Keep an XDP program attached to a tap device that no frame comes to, in a
 * network namespace of its own.  Without it the first attachment of a program
 * and the end of its last, the begin and the end of its BPF_PROG_TEST_RUN each
 * wait for RCU, for 10 ms and more (Linux 6.18, bpf_dispatcher_change_prog).
 * Nothing else depends on it: where the kernel refuses, trials start later.
 */
void hold_program(int prog_fd);
/* Of a program that is closed; the tap device stays for the next one. */
void hold_release(int prog_fd);

#endif
