// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ovsprobe: attach to the probes of a thread that forwards, and print its batches when told to end. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "ovsprobe.h"
#include "ovsprobe.skel.h"
#include "util.h"

#define EXIT_RUNTIME 1
#define EXIT_CONFIG  2
#define MAX_MAPS     64

/* Whose probes: a name and its arguments differ, what they tell does not. */
struct provider {
	const char *name;
	const char *rx, *tx, *kick_end, *complete;
	__u32 frames_argument; /* of rx and tx */
	const char *missing;
};

static const struct provider providers[] = {
	{ "netdev_afxdp", "rx_batch", "tx_batch", "tx_kick_end", "tx_complete",
	  2,
	  "it has none: build it with --enable-usdt-probes and our patches" },
	{ "xsk", "rx", "tx", "kick_end", "complete", 1,
	  "it has none: it is no xsk of this project" },
};

struct prober {
	const struct provider *provider;
	const char *binary;
	__u32 pid, thread, prog_id, every;
	struct ovsprobe_bpf *skel;
	bool first;
};

static int usage(void)
{
	return fail(
		-EINVAL,
		"usage: ovsprobe --binary OVS-VSWITCHD --pid PID --tid TID [--prog-id ID] [--every N] [--provider netdev_afxdp | xsk]: --prog-id is the XDP program of the receiving port");
}

static int parse_number(const char *text, __u32 *number)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || !value || value > INT32_MAX)
		return usage();
	*number = value;
	return 0;
}

static int parse_provider(const char *name, struct prober *p)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(providers); i++) {
		p->provider = &providers[i];
		if (!strcmp(p->provider->name, name))
			return 0;
	}
	return usage();
}

static int parse(struct prober *p, int argc, char **argv)
{
	static const struct option options[] = {
		{ "binary", required_argument, NULL, 'b' },
		{ "pid", required_argument, NULL, 'p' },
		{ "tid", required_argument, NULL, 't' },
		{ "prog-id", required_argument, NULL, 'x' },
		{ "every", required_argument, NULL, 'e' },
		{ "provider", required_argument, NULL, 'v' },
		{},
	};
	int option, err = 0;

	opterr = 0;
	while (!err &&
	       (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'b')
			p->binary = optarg;
		else if (option == 'p')
			err = parse_number(optarg, &p->pid);
		else if (option == 't')
			err = parse_number(optarg, &p->thread);
		else if (option == 'x')
			err = parse_number(optarg, &p->prog_id);
		else if (option == 'e')
			err = parse_number(optarg, &p->every);
		else if (option == 'v')
			err = parse_provider(optarg, p);
		else
			err = usage();
	}
	if (err || optind != argc || !p->binary || !p->pid || !p->thread)
		return err ?: usage();
	return 0;
}

/* Id of the XSKMAP that a program redirects by, or -errno. */
static int find_xsk_map(__u32 prog_id)
{
	__u32 ids[MAX_MAPS], info_len = sizeof(struct bpf_prog_info), i;
	struct bpf_prog_info prog = {};
	struct bpf_map_info map;
	int fd, err;

	fd = bpf_prog_get_fd_by_id(prog_id);
	if (fd < 0)
		return fd;
	prog.nr_map_ids = MAX_MAPS;
	prog.map_ids = (__u64)(unsigned long)ids;
	err = bpf_obj_get_info_by_fd(fd, &prog, &info_len);
	close(fd);
	for (i = 0; !err && i < min(prog.nr_map_ids, (__u32)MAX_MAPS); i++) {
		info_len = sizeof(map);
		fd = bpf_map_get_fd_by_id(ids[i]);
		if (fd < 0)
			continue;
		err = bpf_obj_get_info_by_fd(fd, &map, &info_len);
		close(fd);
		if (!err && map.type == BPF_MAP_TYPE_XSKMAP)
			return ids[i];
	}
	return err ?: -ENOENT;
}

static int attach_usdt(const struct prober *p, struct bpf_program *prog,
		       struct bpf_link **link, const char *name)
{
	int err;

	*link = bpf_program__attach_usdt(prog, p->pid, p->binary,
					 p->provider->name, name, NULL);
	if (*link)
		return 0;
	err = -errno;
	return fail(err, "cannot attach to probe %s:%s of %s: %s",
		    p->provider->name, name, p->binary,
		    err == -ENOENT ? p->provider->missing : explain(err));
}

static int open_prober(struct prober *p)
{
	struct ovsprobe_bpf *skel;
	int err, map = 0;

	if (p->prog_id) {
		map = find_xsk_map(p->prog_id);
		if (map < 0)
			return fail(map, "no AF_XDP map of XDP program %u: %s",
				    p->prog_id, explain(map));
	}
	skel = p->skel = ovsprobe_bpf__open();
	if (!skel)
		return fail(-errno, "cannot open program: %s", explain(-errno));
	skel->rodata->thread = p->thread;
	skel->rodata->xsk_map = map;
	skel->rodata->every = p->every ?: 1;
	skel->rodata->frames_argument = p->provider->frames_argument;
	err = ovsprobe_bpf__load(skel);
	if (err)
		return fail(err, "cannot load program: %s", explain(err));
	err = attach_usdt(p, skel->progs.ovsprobe_tx_complete,
			  &skel->links.ovsprobe_tx_complete,
			  p->provider->complete) ?:
	      attach_usdt(p, skel->progs.ovsprobe_tx_kick_end,
			  &skel->links.ovsprobe_tx_kick_end,
			  p->provider->kick_end) ?:
	      attach_usdt(p, skel->progs.ovsprobe_tx_batch,
			  &skel->links.ovsprobe_tx_batch, p->provider->tx) ?:
	      attach_usdt(p, skel->progs.ovsprobe_rx_batch,
			  &skel->links.ovsprobe_rx_batch, p->provider->rx);
	if (err || !p->prog_id)
		return err;
	/* last: a redirect seen before its batch can be would shift all */
	skel->links.ovsprobe_redirect =
		bpf_program__attach(skel->progs.ovsprobe_redirect);
	if (!skel->links.ovsprobe_redirect)
		return fail(-errno, "cannot attach to xdp:xdp_redirect: %s",
			    explain(-errno));
	return 0;
}

static int print_record(void *context, void *data, size_t size)
{
	struct prober *p = context;

	(void)size;
	batch_print(stdout, data, p->first);
	p->first = false;
	return 0;
}

static int print_records(struct prober *p)
{
	const struct probe_counts *c = &p->skel->bss->counts;
	struct ring_buffer *ring;
	int err;

	ring = ring_buffer__new(bpf_map__fd(p->skel->maps.records),
				print_record, p, NULL);
	if (!ring)
		return fail(-errno, "cannot read records: %s", explain(-errno));
	printf("{\"event\":\"done\",\"batches\":%llu,\"redirects\":%llu,\"unmatched\":%llu,\"unsent\":%llu,\"full\":%llu,",
	       c->batches, c->redirects, c->unmatched, c->unsent, c->full);
	batches_begin(stdout);
	p->first = true;
	err = ring_buffer__consume(ring);
	printf("]}\n");
	ring_buffer__free(ring);
	return err < 0 ? fail(err, "cannot read records: %s", explain(err)) : 0;
}

int main(int argc, char **argv)
{
	struct prober p = { .provider = &providers[0] };
	sigset_t signals;
	int err, signal;

	program_begin("ovsprobe");
	stop_signals(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (parse(&p, argc, argv) || open_prober(&p)) {
		ovsprobe_bpf__destroy(p.skel);
		return EXIT_CONFIG;
	}
	printf("{\"event\":\"ready\"}\n");
	fflush(stdout);
	while (sigwait(&signals, &signal))
		;
	ovsprobe_bpf__detach(p.skel);
	err = print_records(&p);
	ovsprobe_bpf__destroy(p.skel);
	return err ? EXIT_RUNTIME : 0;
}
