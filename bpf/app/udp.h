/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_UDP_H
#define XDPLAB_UDP_H

#include "app.h"

/* Datagrams.  Returns an exit code, after one line of what went wrong. */
int send_datagrams(const struct options *o);

#endif
