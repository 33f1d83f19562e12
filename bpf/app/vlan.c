// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tags what leaves a port and takes only what is tagged, while it runs. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include "util.h"
#include "vlan.h"
#include "vlan.skel.h"

int tag(const char *ifname, int id)
{
	LIBBPF_OPTS(bpf_tc_hook, hook,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, in, .handle = 1, .priority = 1);
	LIBBPF_OPTS(bpf_tc_opts, out, .handle = 1, .priority = 1);
	struct vlan_bpf *skel = vlan_bpf__open();
	char line[16];
	int err;

	hook.ifindex = if_nametoindex(ifname);
	if (!hook.ifindex)
		return fail(2, "unknown interface: %s: create it", ifname);
	if (!skel)
		return fail(1, "cannot open programs: %s", explain(-errno));
	skel->rodata->vlan_id = id;
	err = vlan_bpf__load(skel);
	err = err ?: bpf_tc_hook_create(&hook);
	if (err)
		return fail(1, "cannot tag frames of %s: %s", ifname,
			    explain(err));
	in.prog_fd = bpf_program__fd(skel->progs.vlan_in);
	out.prog_fd = bpf_program__fd(skel->progs.vlan_out);
	hook.attach_point = BPF_TC_INGRESS;
	err = bpf_tc_attach(&hook, &in);
	hook.attach_point = BPF_TC_EGRESS;
	err = err ?: bpf_tc_attach(&hook, &out);
	if (!err) {
		printf("{\"event\":\"ready\"}\n");
		fflush(stdout);
		while (fgets(line, sizeof(line), stdin))
			;
	}
	/* both at once take the queueing discipline away as well */
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
	vlan_bpf__destroy(skel);
	return err ? fail(1, "cannot tag frames of %s: %s", ifname,
			  explain(err)) :
		     0;
}
