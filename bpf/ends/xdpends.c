// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* xdpends: where frames of some ports end, by the kernel's own word. */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include "ends.h"
#include "ends.skel.h"
#include "maps.h"
#include "symbols.h"
#include "util.h"

#define EXIT_RUNTIME 1
#define EXIT_CONFIG  2

struct port {
	const char *name;
	__u32 ifindex;
	__u32 prog; /* id; 0: it has none */
	__u64 runs; /* of that, before */
};

struct watch {
	struct port ports[ENDS_PORTS];
	int count;
	int stats; /* while it is open, the kernel counts runs of programs */
	struct ends_bpf *skel;
	struct btf *btf; /* of the kernel, for names of reasons */
};

static int usage(void)
{
	return fail(-EINVAL, "usage: xdpends IF...: up to %d", ENDS_PORTS);
}

static __u64 runs_of(__u32 prog)
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int fd = prog ? bpf_prog_get_fd_by_id(prog) : -ENOENT;

	if (fd < 0)
		return 0;
	bpf_obj_get_info_by_fd(fd, &info, &length);
	close(fd);
	return info.run_cnt;
}

static int find_ports(struct watch *w, int argc, char **argv)
{
	struct port *p;
	int i;

	for (i = 1; i < argc; i++) {
		if (w->count == ENDS_PORTS)
			return usage();
		p = &w->ports[w->count++];
		p->name = argv[i];
		p->ifindex = if_nametoindex(argv[i]);
		if (!p->ifindex)
			return fail(-ENODEV, "unknown interface: %s", argv[i]);
		/* whichever is attached */
		bpf_xdp_query_id(p->ifindex, 0, &p->prog);
	}
	return w->count ? 0 : usage();
}

static int begin(struct watch *w)
{
	int i, err;

	w->skel = ends_bpf__open();
	if (!w->skel)
		return -errno;
	w->skel->rodata->netns = netns_inode();
	for (i = 0; i < w->count; i++)
		w->skel->rodata->ports[i] = w->ports[i].ifindex;
	err = ends_bpf__load(w->skel) ?: ends_bpf__attach(w->skel);
	if (err)
		return err;
	w->stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	for (i = 0; i < w->count; i++)
		w->ports[i].runs = runs_of(w->ports[i].prog);
	return 0;
}

static const char *reason_name(struct watch *w, __u32 reason)
{
	const struct btf_type *type;
	const struct btf_enum *each;
	int id, i;

	if (!w->btf)
		w->btf = btf__load_vmlinux_btf();
	id = w->btf ? btf__find_by_name_kind(w->btf, "skb_drop_reason",
					     BTF_KIND_ENUM) :
		      -ENOENT;
	if (id < 0)
		return "";
	type = btf__type_by_id(w->btf, id);
	each = btf_enum(type);
	for (i = 0; i < btf_vlen(type); i++, each++)
		if ((__u32)each->val == reason)
			return btf__name_by_offset(w->btf, each->name_off);
	return "";
}

static void print_action(__u32 action)
{
	static const char *const names[] = { "XDP_ABORTED", "XDP_DROP",
					     "XDP_PASS", "XDP_TX",
					     "XDP_REDIRECT" };

	if (action < ARRAY_SIZE(names))
		printf(",\"action\":\"%s\"", names[action]);
	else
		printf(",\"action\":\"%u\"", action);
}

static void print_map(__u32 id)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = id ? bpf_map_get_fd_by_id(id) : -ENOENT;

	if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &length))
		printf(",\"map\":\"%s\",\"map_type\":\"%s\"", info.name,
		       map_type_name(info.type));
	if (fd >= 0)
		close(fd);
}

static void print_error(int error)
{
	printf(",\"error\":\"%s\"",
	       error ? strerrorname_np(-error) ?: "unknown" : "");
}

static const char *name_of(__u32 ifindex, char *buffer)
{
	return ifindex && if_indextoname(ifindex, buffer) ? buffer : "";
}

static void print_end(struct watch *w, const struct end *e, __u64 frames)
{
	static const char *const kinds[END_KINDS] = {
		[END_STACK] = "stack",	     [END_EXCEPTION] = "exception",
		[END_REDIRECT] = "redirect", [END_SENT] = "sent",
		[END_NOT_TAKEN] = "refused", [END_DROP] = "drop",
	};
	char at[IF_NAMESIZE], to[IF_NAMESIZE], function[128];

	printf("{\"kind\":\"%s\",\"ifname\":\"%s\",\"frames\":%llu",
	       kinds[e->kind], name_of(e->ifindex, at), frames);
	switch (e->kind) {
	case END_EXCEPTION:
		print_action(e->a);
		break;
	case END_REDIRECT:
		print_map(e->a);
		printf(",\"key\":%u", e->b);
		print_error(e->error);
		break;
	case END_SENT:
	case END_NOT_TAKEN:
		printf(",\"to\":\"%s\"", name_of(e->a, to));
		print_error(e->error);
		break;
	case END_DROP:
		symbol_name(e->at, function, sizeof(function));
		printf(",\"reason\":\"%s\",\"function\":\"%s\"",
		       reason_name(w, e->a), function);
		break;
	}
	printf("}");
}

static void print_all(struct watch *w)
{
	int map = bpf_map__fd(w->skel->maps.counts), i;
	struct end key, *last = NULL;

	printf("{\"event\":\"ends\",\"ends\":[");
	while (!bpf_map_get_next_key(map, last, &key)) {
		__u64 frames = 0;

		bpf_map_lookup_elem(map, &key, &frames);
		printf("%s", last ? "," : "");
		print_end(w, &key, frames);
		last = &key;
	}
	printf("],\"ports\":[");
	for (i = 0; i < w->count; i++) {
		const struct port *p = &w->ports[i];

		printf("%s{\"ifname\":\"%s\",\"runs\":", i ? "," : "", p->name);
		if (!p->prog || w->stats < 0)
			printf("null");
		else
			printf("%llu", runs_of(p->prog) - p->runs);
		printf(",\"prog_id\":%u,\"maps\":[", p->prog);
		if (p->prog)
			print_maps(p->prog);
		printf("]}");
	}
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct watch w = { .stats = -1 };
	sigset_t signals;
	int err, signal;

	program_begin("xdpends");
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		printf("xdpends IF...: count until SIGTERM what becomes of the frames that come in at these ports, and print it\n");
		return 0;
	}
	stop_signals(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (find_ports(&w, argc, argv))
		return EXIT_CONFIG;
	err = begin(&w);
	if (err) {
		fail(err, "cannot watch the kernel: %s", explain(err));
	} else {
		printf("{\"event\":\"ready\"}\n");
		fflush(stdout);
		while (sigwait(&signals, &signal))
			;
		print_all(&w);
	}
	ends_bpf__destroy(w.skel);
	if (w.stats >= 0)
		close(w.stats);
	btf__free(w.btf);
	return err ? EXIT_RUNTIME : 0;
}
