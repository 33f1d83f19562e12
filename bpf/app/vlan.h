/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XDPLAB_VLAN_H
#define XDPLAB_VLAN_H

/* Until its standard input ends: a port of VLAN @id.  Returns an exit code. */
int tag(const char *ifname, int id);

#endif
