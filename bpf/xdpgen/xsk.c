// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include "sender.h"
static int xsk_open(struct sender *s)
{
	(void)s;
	return -EOPNOTSUPP;
}
static void xsk_close(struct sender *s)
{
	(void)s;
}
const struct sender_ops xsk_sender = { .name = "xsk",
				       .open = xsk_open,
				       .close = xsk_close };
