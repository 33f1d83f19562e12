// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Bound to a device whose driver may have time stamps (Linux 6.3).  An object
 * of its own: where the kernel has no such function, or no BTF, libbpf loads
 * nothing of an object that names it, not even programs that do not call it.
 */
#include "redirect_program.h"

extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx,
					 __u64 *timestamp) __ksym;

SEC("xdp")
int xsk_redirect_hw(struct xdp_md *ctx)
{
	__u64 hardware_ns = 0;

	if (bpf_xdp_metadata_rx_timestamp(ctx, &hardware_ns))
		hardware_ns = 0;
	note_arrival(ctx, hardware_ns);
	return redirect(ctx);
}
