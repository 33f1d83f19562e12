/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the XDP program and its loader share. */
#ifndef XSK_REDIRECT_H
#define XSK_REDIRECT_H

#define REDIRECT_QUEUES 256

#endif
