/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_ASK_H
#define XDPLAB_ASK_H

#include "app.h"

/* The client.  Returns an exit code, after one line of what went wrong. */
int ask(const struct options *o);

#endif
