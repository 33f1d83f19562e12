// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "config.h"
#include "config_check.h"
#include "fields.h"
#include "stream.h"
#include "util.h"

static const char *const rx_names[] = { "xdp", "tc", "none", NULL };
static const char *const mode_names[] = { "native", "generic", NULL };
static const char *const hook_names[] = { "auto", "tcx", "clsact", NULL };
static const char *const sender_names[] = { "auto", "live", "xsk", NULL };

#define AT(type, member) .key = #member, .offset = offsetof(struct type, member)
#define SIZED(type, member) \
	AT(type, member), .size = sizeof(((struct type *)0)->member)

static const struct field port_fields[] = {
	{ SIZED(port, name), .type = FIELD_STRING,
	  .help = "in the result; default: ifname" },
	{ SIZED(port, netns), .type = FIELD_STRING, .nullable = true,
	  .help = "network namespace of the port; null: the one it runs in" },
	{ SIZED(port, ifname), .type = FIELD_STRING, .required = true,
	  .help = "name of the interface" },
	{ AT(port, tx_cpu), .type = FIELD_INT, .max = GEN_CPUS - 1,
	  .nullable = true, .help = "CPU that sends; null: none" },
	{ AT(port, rx), .type = FIELD_ENUM, .names = rx_names,
	  .help = "how frames are received" },
	{ AT(port, xdp_mode), .type = FIELD_ENUM, .names = mode_names,
	  .help = "how the XDP program is attached" },
	{ AT(port, tc_hook), .type = FIELD_ENUM, .names = hook_names,
	  .help = "where the tc program is attached" },
	{ AT(port, reflect), .type = FIELD_BOOL,
	  .help = "send back what arrives, MAC addresses swapped" },
};

struct document {
	const json_t *ports;
	const json_t *streams;
	struct config cfg;
};

#define CFG(member) \
	.key = #member, .offset = offsetof(struct document, cfg.member)
#define TIMING(member) \
	.key = #member, .offset = offsetof(struct document, cfg.timing.member)

static const struct field document_fields[] = {
	{ AT(document, ports), .type = FIELD_ARRAY, .required = true,
	  .help = "1 to 32 objects, keys below" },
	{ AT(document, streams), .type = FIELD_ARRAY, .required = true,
	  .help = "1 to 16 objects, keys below" },
	{ TIMING(warmup_s), .type = FIELD_NUMBER, .max = 3600,
	  .help = "traffic before the trial, not counted" },
	{ TIMING(duration_s), .type = FIELD_NUMBER, .min = 0.001, .max = 864000,
	  .help = "of the trial" },
	{ CFG(drain_s), .type = FIELD_NUMBER, .max = 3600,
	  .help = "wait for late frames at the end, at most" },
	{ CFG(drain_idle_s), .type = FIELD_NUMBER, .max = 3600,
	  .help = "end that wait when none has arrived for so long; 0: never" },
	{ CFG(batch), .type = FIELD_INT, .max = 256,
	  .help = "frames for the driver at once; 0: by rate and driver" },
	{ TIMING(max_burst), .type = FIELD_INT, .max = 1000000,
	  .help = "intervals that a stream may be late before it skips frames" },
	{ TIMING(late_ns), .type = FIELD_INT, .max = NSEC_PER_SEC,
	  .help = "a departure later than this is not on schedule" },
	{ TIMING(stall_ns), .type = FIELD_INT, .min = 1, .max = NSEC_PER_SEC,
	  .help = "a gap between two polls that counts as a stall" },
	{ CFG(sender), .type = FIELD_ENUM, .names = sender_names,
	  .help = "in the kernel (live), or over AF_XDP (xsk)" },
	{ CFG(progress), .type = FIELD_BOOL,
	  .help = "a line on stderr each second; default: on a terminal" },
	{ CFG(flow_figures), .type = FIELD_BOOL,
	  .help = "figures of each flow, 10,000 at most" },
	{ CFG(link_changes), .type = FIELD_BOOL,
	  .help = "a port whose carrier goes and comes does not end the trial" },
};

static const struct config defaults = {
	.timing = {
		.warmup_s = 0.2,
		.duration_s = 2.0,
		.max_burst = 32,
		.late_ns = 200,
		.stall_ns = 100000,
	},
	.drain_s = 0.2,
};

void config_help(void)
{
	static const struct port port = { .tx_cpu = NO_CPU };
	static struct document filled;

	filled.cfg = defaults;
	fields_help("xdpgen [--check] CONFIG.json | -, with the keys:",
		    document_fields, ARRAY_SIZE(document_fields), &filled);
	fields_help("ports[]:", port_fields, ARRAY_SIZE(port_fields), &port);
	streams_help();
}

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

static int read_document(const json_t *root, struct config *cfg)
{
	struct document doc = { .cfg = defaults };
	int err;

	doc.cfg.progress = isatty(STDERR_FILENO);
	err = fields_read(root, "", document_fields,
			  ARRAY_SIZE(document_fields), &doc);
	if (err)
		return err;
	*cfg = doc.cfg;
	err = read_ports(doc.ports, cfg);
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
