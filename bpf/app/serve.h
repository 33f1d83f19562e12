/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_SERVE_H
#define XDPLAB_SERVE_H

#include "app.h"

/* The server.  Returns an exit code, after one line of what went wrong. */
int serve(const struct options *o);

#endif
