// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "clocks_shared.h"
#include "config.h"
#include "fields.h"
#include "util.h"

static const char *const rx_names[] = { "xdp", "tc", "none", NULL };
static const char *const mode_names[] = { "native", "generic", NULL };
static const char *const hook_names[] = { "auto", "tcx", "clsact", NULL };
static const char *const sender_names[] = { "auto", "live", "xsk", NULL };

#define AT(type, member) .key = #member, .offset = offsetof(struct type, member)
#define SIZED(type, member) \
	AT(type, member), .size = sizeof(((struct type *)0)->member)

static const struct field port_fields[] = {
	{ SIZED(port, name), .type = FIELD_STRING },
	{ SIZED(port, netns), .type = FIELD_STRING, .nullable = true },
	{ SIZED(port, ifname), .type = FIELD_STRING, .required = true },
	{ AT(port, tx_cpu), .type = FIELD_INT, .max = GEN_CPUS - 1,
	  .nullable = true },
	{ AT(port, rx), .type = FIELD_ENUM, .names = rx_names },
	{ AT(port, xdp_mode), .type = FIELD_ENUM, .names = mode_names },
	{ AT(port, tc_hook), .type = FIELD_ENUM, .names = hook_names },
	{ AT(port, reflect), .type = FIELD_BOOL },
};

struct document {
	const json_t *ports;
	const json_t *streams;
	const json_t *slices;
	struct config cfg;
};

#define CFG(member) \
	.key = #member, .offset = offsetof(struct document, cfg.member)
#define TIMING(member) \
	.key = #member, .offset = offsetof(struct document, cfg.timing.member)

static const struct field document_fields[] = {
	{ AT(document, ports), .type = FIELD_ARRAY, .required = true },
	{ AT(document, streams), .type = FIELD_ARRAY, .required = true },
	{ TIMING(warmup_s), .type = FIELD_NUMBER, .max = 3600 },
	{ TIMING(duration_s), .type = FIELD_NUMBER, .min = 0.001,
	  .max = 864000 },
	{ CFG(drain_s), .type = FIELD_NUMBER, .max = 3600 },
	{ CFG(drain_idle_s), .type = FIELD_NUMBER, .max = 3600 },
	{ CFG(batch), .type = FIELD_INT, .max = 256 },
	{ TIMING(max_burst), .type = FIELD_INT, .max = 1000000 },
	{ TIMING(late_ns), .type = FIELD_INT, .max = NSEC_PER_SEC },
	{ TIMING(stall_ns), .type = FIELD_INT, .min = 1, .max = NSEC_PER_SEC },
	{ CFG(sender), .type = FIELD_ENUM, .names = sender_names },
	{ CFG(progress), .type = FIELD_BOOL },
	{ CFG(flow_figures), .type = FIELD_BOOL },
	{ AT(document, slices), .type = FIELD_OBJECT, .nullable = true },
};

struct watched {
	const json_t *cpus;
	const json_t *threads;
	const json_t *processes;
};

static const struct field watched_fields[] = {
	{ AT(watched, cpus), .type = FIELD_ARRAY },
	{ AT(watched, threads), .type = FIELD_ARRAY },
	{ AT(watched, processes), .type = FIELD_ARRAY },
};

static int read_ports(const json_t *array, struct config *cfg)
{
	char where[32];
	size_t i;
	int err;

	if (!json_array_size(array) || json_array_size(array) > MAX_PORTS)
		return bad_value("ports", "", "must have 1 to 32 entries");
	for (i = 0; i < json_array_size(array); i++) {
		struct port *port = &cfg->ports[i];

		snprintf(where, sizeof(where), "ports[%zu]", i);
		*port = (struct port){ .tx_cpu = NO_CPU };
		err = fields_read(json_array_get(array, i), where, port_fields,
				  ARRAY_SIZE(port_fields), port);
		if (err)
			return err;
		if (!port->name[0])
			strcpy(port->name, port->ifname);
	}
	cfg->num_ports = i;
	return 0;
}

static int read_numbers(const json_t *array, const char *key, size_t most,
			long long highest, struct watch_list *list)
{
	char text[96];
	size_t i;

	for (i = 0; i < json_array_size(array); i++) {
		const json_t *value = json_array_get(array, i);

		if (i == most || !json_is_integer(value) ||
		    json_integer_value(value) < 0 ||
		    json_integer_value(value) > highest) {
			snprintf(text, sizeof(text),
				 "must be up to %zu integers from 0 to %lld",
				 most, highest);
			return bad_value("slices", key, text);
		}
		list->number[i] = json_integer_value(value);
	}
	list->count = i;
	return 0;
}

static int read_slices(const json_t *object, struct config *cfg)
{
	struct watched watched = {};
	int err;

	cfg->slices = object != NULL;
	if (!object)
		return 0;
	err = fields_read(object, "slices", watched_fields,
			  ARRAY_SIZE(watched_fields), &watched);
	if (err)
		return err;
	return read_numbers(watched.cpus, "cpus", MAX_WATCHED, GEN_CPUS - 1, &cfg->cpus) ?:
		       read_numbers(watched.threads, "threads", CLOCK_THREADS - GEN_STREAMS, INT_MAX, &cfg->threads) ?:
		       read_numbers(watched.processes, "processes",
				    CLOCK_PROCESSES, INT_MAX, &cfg->processes);
}

static int read_document(const json_t *root, struct config *cfg)
{
	struct document doc = { .cfg = {
					.timing = {
						.warmup_s = 0.2,
						.duration_s = 2.0,
						.max_burst = 32,
						.late_ns = 200,
						.stall_ns = 100000,
					},
					.drain_s = 0.2,
					.progress = isatty(STDERR_FILENO),
				} };
	int err;

	err = fields_read(root, "", document_fields,
			  ARRAY_SIZE(document_fields), &doc);
	if (err)
		return err;
	*cfg = doc.cfg;
	err = read_slices(doc.slices, cfg) ?: read_ports(doc.ports, cfg);
	if (err)
		return err;
	cfg->num_streams = streams_read(doc.streams, cfg->streams);
	return min(cfg->num_streams, 0);
}

int config_read(FILE *in, const char *path, struct config *cfg)
{
	json_error_t error;
	json_t *root;
	int err;

	root = json_loadf(in, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK,
			  &error);
	if (!root)
		return fail(-EINVAL, "bad JSON: %s line %d: %s", path,
			    error.line, error.text);
	err = read_document(root, cfg) ?: config_check(cfg);
	json_decref(root);
	return err;
}
