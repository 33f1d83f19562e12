// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * nf: the network functions in user space, between AF_XDP sockets; all of
 * them, or those that follow the ones in the XDP program.
 *
 * Frames are taken only when every port has room for them, so that none is
 * lost here but by verdict.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nf_functions.h"
#include "nf_program.h"
#include "util.h"
#include "worker.h"

static bool in_user_space(const struct nf_options *o, enum nf_function f)
{
	return nf_options_has(o, o->setup.xdp_functions, o->setup.num_functions,
			      f);
}

static int make_acl(struct nf_env *env, const struct nf_entries *e)
{
	static const struct nf_session none;
	int err = nf_hash_make(&env->acl, e->num_acl);
	size_t i;

	for (i = 0; !err && i < e->num_acl; i++)
		nf_hash_add(&env->acl, &e->acl[i], &none);
	return err;
}

static int make_sessions(struct nf_env *env, const struct nf_entries *e)
{
	int err = nf_hash_make(&env->sessions, e->num_sessions + 2 * NF_NEW);
	size_t i;

	for (i = 0; !err && i < e->num_sessions; i++)
		nf_hash_add(&env->sessions, &e->session_keys[i],
			    &e->sessions[i]);
	return err;
}

static int make_lines(struct nf_env *env)
{
	env->lines =
		aligned_alloc(NF_LINE, (size_t)env->setup->lines * NF_LINE);
	if (!env->lines)
		return fail(-ENOMEM, "cannot allocate: nf.work_bytes");
	/* each page is one of its own, not all the same page of zeroes */
	memset(env->lines, 0, (size_t)env->setup->lines * NF_LINE);
	return 0;
}

static int nf_open(struct worker *w)
{
	const struct nf_options *o = &w->opt->nf;
	struct nf_entries e;
	struct nf_env *env;
	int err;

	env = w->private = calloc(1, sizeof(*env));
	if (!env)
		return fail(-ENOMEM, "cannot allocate: nf");
	env->setup = &o->setup;
	err = nf_entries_make(&e, o);
	if (!err && in_user_space(o, NF_FIREWALL))
		err = make_acl(env, &e);
	if (!err && in_user_space(o, NF_LOAD_BALANCER))
		err = make_sessions(env, &e);
	if (!err && in_user_space(o, NF_ROUTER))
		err = nf_trie_make(&env->routes, e.routes, e.num_routes);
	if (!err && !o->setup.xdp_functions && o->setup.lookups)
		err = make_lines(env);
	nf_entries_free(&e);
	return err;
}

static void nf_close(struct worker *w)
{
	struct nf_env *env = w->private;

	nf_hash_free(&env->acl);
	nf_hash_free(&env->sessions);
	nf_trie_free(&env->routes);
	free(env->lines);
	free(env);
}

/* Frames by where they go: a port each, and those that end here. */
struct sorted {
	struct frame frames[NF_PORTS + 1][XSK_BATCH];
	__u32 n[NF_PORTS + 1];
};

#define ENDS_HERE NF_PORTS
#define STACK	  1 /* the port to it, if there is one */

static __u32 decide(struct nf_env *env, const struct nf_options *o, int in,
		    const struct frame *frame)
{
	const struct nf_setup *s = env->setup;
	struct nf_counters *n = &env->state.n;
	__u32 port = in;

	n->rx++;
	if (o->stack_port && in == STACK) {
		n->forwarded++;
		return 0;
	}
	switch (nf_chain(env, s->xdp_functions, s->num_functions, frame->data,
			 frame->data + frame->len, &port)) {
	case NF_FORWARD:
		n->forwarded++;
		return port;
	case NF_LOCAL:
		n->local++;
		if (o->stack_port)
			return STACK;
		n->undelivered++;
		return ENDS_HERE;
	default:
		n->dropped++;
		return ENDS_HERE;
	}
}

static int hand_over(struct worker *w, struct io *in, int lane,
		     const struct sorted *to)
{
	int port, err = 0;

	if (to->n[ENDS_HERE])
		in->ops->put(in, to->frames[ENDS_HERE], to->n[ENDS_HERE]);
	for (port = 0; !err && port < w->opt->num_ports; port++) {
		struct io *out = worker_io(w, port, lane);

		if (!to->n[port])
			continue;
		out->ops->tx(out, to->frames[port], to->n[port]);
		err = out->ops->kick(out);
		w->broken = err ? out->port : NULL;
	}
	return err;
}

/* Frames that fit into every port's ring. */
static __u32 room_everywhere(struct worker *w, int lane)
{
	__u32 n = w->opt->io.batch;
	int port;

	for (port = 0; port < w->opt->num_ports; port++) {
		struct io *out = worker_io(w, port, lane);

		n = min(n, out->ops->room(out, n));
	}
	return n;
}

static int nf_lane(struct worker *w, int port, int lane)
{
	struct io *in = worker_io(w, port, lane);
	struct frame frames[XSK_BATCH];
	struct nf_env *env = w->private;
	struct sorted to;
	__u32 n, i, out;
	int err;

	w->broken = in->port;
	n = room_everywhere(w, lane);
	if (n < w->opt->io.batch)
		in->n.tx_full++;
	if (n)
		n = in->ops->rx(in, frames, n);
	if (!n)
		return in->ops->kick(in) ?: in->ops->idle(in);
	for (i = 0; i <= NF_PORTS; i++)
		to.n[i] = 0;
	for (i = 0; i < n; i++) {
		out = decide(env, &w->opt->nf, port, &frames[i]);
		to.frames[out][to.n[out]++] = frames[i];
	}
	err = hand_over(w, in, lane, &to);
	return err ?: (int)n;
}

static int nf_turn(struct worker *w)
{
	int handled = 0, port, lane, n;

	for (port = 0; port < w->opt->num_ports; port++) {
		for (lane = 0; lane < w->lanes; lane++) {
			n = nf_lane(w, port, lane);
			if (n < 0)
				return n;
			handled += n;
		}
	}
	return handled;
}

static json_t *counters_json(const struct nf_counters *n)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rx",
			 (json_int_t)n->rx, "dropped", (json_int_t)n->dropped,
			 "forwarded", (json_int_t)n->forwarded, "local",
			 (json_int_t)n->local, "to_socket",
			 (json_int_t)n->to_socket, "undelivered",
			 (json_int_t)n->undelivered, "sessions_new",
			 (json_int_t)n->sessions_new, "sessions_refused",
			 (json_int_t)n->sessions_refused);
}

static void nf_counters_json(const struct worker *workers, int count,
			     const void *shared, json_t *root)
{
	struct nf_counters kernel = {}, threads = {};
	size_t j;
	int i;

	nf_program_counters(shared, &kernel);
	for (i = 0; i < count; i++) {
		const struct nf_env *env = workers[i].private;

		for (j = 0; j < sizeof(threads) / sizeof(__u64); j++)
			((__u64 *)&threads)[j] += ((__u64 *)&env->state.n)[j];
	}
	json_object_set_new(root, "nf",
			    json_pack("{s:o, s:o}", "xdp",
				      counters_json(&kernel), "af_xdp",
				      counters_json(&threads)));
}

/* Tables of one thread; all have the same. */
static json_t *thread_tables(const struct nf_env *env)
{
	return json_pack("{s:I, s:I}", "acl", (json_int_t)env->acl.used,
			 "sessions", (json_int_t)env->sessions.used);
}

static void nf_in_use(const struct worker *workers, int count,
		      const void *shared, json_t *root)
{
	json_t *tables =
		count ? thread_tables(workers[0].private) : json_null();

	json_object_set_new(root, "nf",
			    json_pack("{s:o, s:o}", "xdp",
				      nf_program_tables(shared), "af_xdp",
				      tables));
}

static int nf_attach(const struct options *o, struct program *programs,
		     void **shared)
{
	*shared = calloc(1, sizeof(struct nf_program));
	if (!*shared)
		return fail(-ENOMEM, "cannot allocate: nf");
	return nf_program_open(*shared, o, programs);
}

static void nf_detach(void *shared)
{
	nf_program_close(shared);
	free(shared);
}

const struct role_ops nf_role = { .attach = nf_attach,
				  .detach = nf_detach,
				  .open = nf_open,
				  .turn = nf_turn,
				  .close = nf_close,
				  .in_use = nf_in_use,
				  .counters = nf_counters_json };
