// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "redirect_program.h"

SEC("xdp")
int xsk_redirect(struct xdp_md *ctx)
{
	if (config.stamp)
		note_arrival(ctx, 0);
	return redirect(ctx);
}
