// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* xdpfwd: the smallest XDP_REDIRECT forwarder, the yardstick of the others. */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_link.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "object.h"
#include "util.h"
#include "xdpfwd.h"
#include "xdpfwd.skel.h"

#define EXIT_RUNTIME 1
#define EXIT_CONFIG  2

struct forwarder {
	const char *names[FWD_PORTS];
	__u32 ifindexes[FWD_PORTS];
	int links[FWD_PORTS];
	int ports; /* 1 with hairpin */
	bool hairpin;
	bool pass;     /* the kernel forwards */
	bool redirect; /* not XDP_TX */
	bool generic;
	bool complained;
	__u32 tx_dropped[FWD_PORTS]; /* link_counts() at the start */
	struct xdpfwd_bpf *skel;     /* not with a program of the user's */
	const char *path;	     /* of that */
	const char *section;
	struct object own;
};

static int help(void)
{
	printf("xdpfwd --if0 IF --if1 IF [--mode native|generic] [--hairpin | --pass] [--object FILE [--section NAME]]\n"
	       "  --if0 IF      first port\n"
	       "  --if1 IF      second port\n"
	       "  --mode MODE   how the program is attached: native (default), generic\n"
	       "  --hairpin     send back out of the first port, the only one\n"
	       "  --pass        leave every frame to the kernel, to see what an XDP program alone costs\n"
	       "  --object FILE attach a program of yours: docs/own-programs.md\n"
	       "  --section NAME which one, by its section or its name\n");
	return 0;
}

static int usage(void)
{
	return fail(
		-EINVAL,
		"usage: xdpfwd --if0 IF --if1 IF [--mode native|generic] [--hairpin | --pass] [--object FILE [--section NAME]]: with --hairpin only --if0 is used, --pass needs no --if1");
}

static int parse(struct forwarder *f, int argc, char **argv)
{
	static const struct option options[] = {
		{ "if0", required_argument, NULL, '0' },
		{ "if1", required_argument, NULL, '1' },
		{ "mode", required_argument, NULL, 'm' },
		{ "hairpin", no_argument, NULL, 'h' },
		{ "pass", no_argument, NULL, 'p' },
		{ "object", required_argument, NULL, 'o' },
		{ "section", required_argument, NULL, 's' },
		{},
	};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '0' || option == '1')
			f->names[option - '0'] = optarg;
		else if (option == 'h')
			f->hairpin = true;
		else if (option == 'p')
			f->pass = true;
		else if (option == 'o')
			f->path = optarg;
		else if (option == 's')
			f->section = optarg;
		else if (option == 'm' && !strcmp(optarg, "generic"))
			f->generic = true;
		else if (option != 'm' || strcmp(optarg, "native"))
			return usage();
	}
	f->ports = f->hairpin || (f->pass && !f->names[1]) ? 1 : FWD_PORTS;
	if (optind != argc || !f->names[0] ||
	    (f->ports == FWD_PORTS && !f->names[1]) ||
	    (f->section && !f->path) || (f->pass && (f->hairpin || f->path)))
		return usage();
	return 0;
}

static int find_ports(struct forwarder *f)
{
	int i, err;

	for (i = 0; i < f->ports; i++) {
		f->ifindexes[i] = if_nametoindex(f->names[i]);
		if (!f->ifindexes[i])
			return fail(-ENODEV, "unknown interface: %s: create it",
				    f->names[i]);
		err = check_no_xdp(f->names[i], f->ifindexes[i]);
		if (err)
			return err;
	}
	f->redirect = !f->pass && (!f->hairpin || is_veth(f->names[0]));
	if (f->ports == FWD_PORTS && f->ifindexes[0] == f->ifindexes[1])
		return fail(-EINVAL,
			    "bad option: --if1 %s: is --if0 too: use --hairpin",
			    f->names[1]);
	return 0;
}

static int fill_targets(struct forwarder *f)
{
	int map = bpf_map__fd(f->skel->maps.targets), err = 0;
	__u32 port;

	for (port = 0; !err && f->redirect && port < (__u32)f->ports; port++)
		err = bpf_map_update_elem(
			map, &port, &f->ifindexes[f->hairpin ? port : !port],
			BPF_ANY);
	return err;
}

static int load_skeleton(struct forwarder *f, bool count_errors)
{
	struct xdpfwd_bpf *skel;

	skel = f->skel = xdpfwd_bpf__open();
	if (!skel)
		return -errno;
	memcpy((void *)skel->rodata->ifindexes, f->ifindexes,
	       sizeof(f->ifindexes));
	bpf_program__set_autoload(skel->progs.xdpfwd_error, count_errors);
	return xdpfwd_bpf__load(skel);
}

static int load_ours(struct forwarder *f)
{
	struct bpf_map_info info = {};
	__u32 info_len = sizeof(info);
	struct xdpfwd_bpf *skel;
	int err;

	err = load_skeleton(f, true);
	if (err == -EINVAL) {
		/* a kernel without raw tracepoints: errors stay uncounted */
		xdpfwd_bpf__destroy(f->skel);
		err = load_skeleton(f, false);
	}
	if (err)
		return err;
	skel = f->skel;
	err = bpf_obj_get_info_by_fd(bpf_map__fd(skel->maps.targets), &info,
				     &info_len);
	if (err)
		return err;
	skel->bss->targets_id = info.id;
	skel->links.xdpfwd_error =
		bpf_program__attach(skel->progs.xdpfwd_error);
	forget_warnings();
	return fill_targets(f);
}

static int load(struct forwarder *f)
{
	int err;

	if (f->path)
		return object_open(&f->own, f->path, f->section) ?:
			       object_load(&f->own, f->path, f->ifindexes,
					   f->ports);
	err = load_ours(f);
	return err ? fail(err, "cannot load program: %s: %s", f->names[0],
			  explain(err)) :
		     0;
}

static int program_fd(const struct forwarder *f)
{
	if (f->path)
		return bpf_program__fd(f->own.prog);
	if (f->pass)
		return bpf_program__fd(f->skel->progs.xdpfwd_pass);
	return bpf_program__fd(f->redirect ? f->skel->progs.xdpfwd_redirect :
					     f->skel->progs.xdpfwd_hairpin);
}

static int attach(struct forwarder *f)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = f->generic ? XDP_FLAGS_SKB_MODE :
					  XDP_FLAGS_DRV_MODE);
	int i;

	for (i = 0; i < f->ports; i++) {
		f->links[i] = bpf_link_create(program_fd(f), f->ifindexes[i],
					      BPF_XDP, &opts);
		if (f->links[i] < 0)
			return fail(f->links[i], "cannot attach %s XDP: %s: %s",
				    f->generic ? "generic" : "native",
				    f->names[i],
				    explain_attach(f->links[i], f->ifindexes[i],
						   program_fd(f), opts.flags));
	}
	return 0;
}

static int print_ready(const struct forwarder *f)
{
	struct bpf_prog_info info = {};
	__u32 info_len = sizeof(info);
	int err;

	err = bpf_obj_get_info_by_fd(program_fd(f), &info, &info_len);
	if (err)
		return fail(err, "cannot read program id: %s", explain(err));
	printf("{\"event\":\"ready\",\"mode\":\"%s\",\"prog_id\":%u,\"program\":\"%s\",",
	       f->generic ? "generic" : "native", info.id, info.name);
	if (f->path)
		printf("\"devmap\":%s,\"constants\":%s}\n",
		       f->own.devmap ? "true" : "false",
		       f->own.constants ? "true" : "false");
	else
		printf("\"action\":\"%s\"}\n", f->pass	   ? "pass" :
					       f->redirect ? "redirect" :
							     "tx");
	return 0;
}

/* Nothing of what came in at @from has left: tell why, once. */
static void complain(struct forwarder *f, int from, __u64 given, __u64 lost)
{
	if (f->complained || !given || lost < given)
		return;
	f->complained = true;
	fail(0,
	     "nothing leaves at %s, %llu frames were dropped there: " PEER_TAKES_NONE,
	     f->names[f->hairpin ? from : !from], lost);
}

static int print_counters(struct forwarder *f, const char *event)
{
	int cpus = libbpf_num_possible_cpus(), err, i;
	struct fwd_counters cpu[cpus], sum[FWD_PORTS] = {};
	__u64 errors[FWD_PORTS];
	__u32 dropped[FWD_PORTS] = {}, port;

	for (i = 0; i < f->ports; i++)
		dropped[i] =
			link_counts(f->names[i]).tx_dropped - f->tx_dropped[i];
	if (f->path) {
		printf("{\"event\":\"%s\",\"tx_dropped\":[%u,%u]}\n", event,
		       dropped[0], dropped[1]);
		return 0;
	}
	for (port = 0; port < FWD_PORTS; port++) {
		err = bpf_map_lookup_elem(bpf_map__fd(f->skel->maps.counters),
					  &port, cpu);
		if (err)
			return fail(err, "cannot read counters: %s",
				    explain(err));
		for (i = 0; i < cpus; i++) {
			sum[port].rx += cpu[i].rx;
			sum[port].sent += cpu[i].sent;
		}
		errors[port] = f->skel->bss->errors[port];
	}
	printf("{\"event\":\"%s\",\"rx\":[%llu,%llu],\"redirected\":[%llu,%llu],\"errors\":[%llu,%llu],\"tx_dropped\":[%u,%u]}\n",
	       event, sum[0].rx, sum[1].rx, sum[0].sent - errors[0],
	       sum[1].sent - errors[1], errors[0], errors[1], dropped[0],
	       dropped[1]);
	for (i = 0; i < f->ports; i++)
		complain(f, i, sum[i].sent,
			 errors[i] + dropped[f->hairpin ? i : !i]);
	return 0;
}

static int serve(struct forwarder *f, const sigset_t *signals)
{
	int err, signal;

	err = print_ready(f);
	while (!err) {
		fflush(stdout);
		if (sigwait(signals, &signal))
			continue;
		if (signal != SIGUSR1)
			break;
		err = print_counters(f, "counters");
	}
	return err ?: print_counters(f, "done");
}

static int open_forwarder(struct forwarder *f, int argc, char **argv)
{
	int err, i;

	err = parse(f, argc, argv) ?: find_ports(f);
	if (err)
		return err;
	err = load(f);
	if (err)
		return err;
	for (i = 0; i < f->ports; i++)
		f->tx_dropped[i] = link_counts(f->names[i]).tx_dropped;
	return attach(f);
}

int main(int argc, char **argv)
{
	struct forwarder f = { .links = { -1, -1 } };
	sigset_t signals;
	int err = 0, i;

	program_begin("xdpfwd");
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return help();
	stop_signals(&signals);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (open_forwarder(&f, argc, argv))
		err = EXIT_CONFIG;
	else if (serve(&f, &signals))
		err = EXIT_RUNTIME;
	for (i = 0; i < FWD_PORTS; i++)
		if (f.links[i] >= 0)
			close(f.links[i]);
	xdpfwd_bpf__destroy(f.skel);
	object_close(&f.own);
	return err;
}
