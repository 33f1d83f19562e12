// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ask.h"
#include "payload.h"
#include "serve.h"
#include "udp.h"
#include "util.h"
#include "vlan.h"

#define EXIT_CONFIG 2

static const char *const works[] = {
	[WORK_BULK] = "bulk",
	[WORK_REQUESTS] = "requests",
	[WORK_CONNECTIONS] = "connections",
	[WORK_UDP] = "udp",
};

enum key {
	KEY_CONNECTIONS,
	KEY_UP,
	KEY_DOWN,
	KEY_REQUEST,
	KEY_ANSWER,
	KEY_WARMUP,
	KEY_DURATION,
	KEY_PATIENCE,
	KEY_PROBE,
	KEY_RATE,
	KEYS,
};

static const struct given {
	const char *name;
	const char *unit; /* NULL: a switch */
	const char *text;
	double least;
	double most;
} keys[KEYS] = {
	[KEY_CONNECTIONS] = { "connections", "N",
			      "at the same time, of bulk each way (1)", 1,
			      MAX_CONNECTIONS },
	[KEY_UP] = { "up", NULL, "bulk from client to server" },
	[KEY_DOWN] = { "down", NULL, "bulk from server to client" },
	[KEY_REQUEST] = { "request-bytes", "N",
			  "of requests, and of datagrams with their header of 8 (64)",
			  9, 65507 },
	[KEY_ANSWER] = { "answer-bytes", "N", "of answers (64)", 1, 1 << 30 },
	[KEY_WARMUP] = { "warmup", "S", "seconds before what counts (0.2)", 0,
			 60 },
	[KEY_DURATION] = { "duration", "S", "seconds that count (1)", 0.05,
			   3600 },
	[KEY_PATIENCE] = { "patience", "S",
			   "seconds without a byte before it gives up (2)", 0.1,
			   6 },
	[KEY_PROBE] = { "probe-us", "N",
			"of bulk: from one small request to the next (1000)",
			100, 1e6 },
	[KEY_RATE] = { "mbps", "N",
		       "of udp: megabits per second of payload; 0: as fast as it goes (0)",
		       0, 1e6 },
};

static int help(void)
{
	int i;

	printf("xdpapp serve ADDRESS PORT\n"
	       "  answers until its standard input ends; each line there asks for its counters\n"
	       "xdpapp vlan PORT ID\n"
	       "  tags what leaves a port and takes only what is tagged, until its standard input ends\n"
	       "xdpapp bulk|requests|connections|udp ADDRESS PORT [OPTION...]\n");
	for (i = 0; i < KEYS; i++)
		printf("  --%-13s %-2s %s\n", keys[i].name, keys[i].unit ?: "",
		       keys[i].text);
	return 0;
}

static int parse_address(struct options *o, const char *address,
			 const char *port)
{
	char *end;
	long number = strtol(port, &end, 10);

	o->address.sin_family = AF_INET;
	o->address.sin_port = htons(number);
	if (inet_pton(AF_INET, address, &o->address.sin_addr) != 1)
		return fail(-EINVAL, "bad address: %s: give IPv4", address);
	if (*end || number < 1 || number > 65535)
		return fail(-EINVAL, "bad port: %s: give 1 to 65535", port);
	return 0;
}

static int parse_options(struct options *o, int argc, char **argv)
{
	double value[KEYS] = {
		[KEY_CONNECTIONS] = 1, [KEY_REQUEST] = 64, [KEY_ANSWER] = 64,
		[KEY_WARMUP] = 0.2,    [KEY_DURATION] = 1, [KEY_PATIENCE] = 2,
		[KEY_PROBE] = 1000,
	};
	struct option options[KEYS + 1] = {};
	int i, key;
	char *end;

	for (i = 0; i < KEYS; i++)
		options[i] = (struct option){ keys[i].name, !!keys[i].unit,
					      NULL, i };
	opterr = 0;
	while ((key = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (key == '?')
			return fail(-EINVAL, "bad option: %s: see --help",
				    argv[optind - 1]);
		value[key] = keys[key].unit ? strtod(optarg, &end) : 1;
		if (keys[key].unit && (end == optarg || *end ||
				       !(value[key] >= keys[key].least) ||
				       value[key] > keys[key].most))
			return fail(-EINVAL,
				    "bad option: --%s %s: give %g to %g",
				    keys[key].name, optarg, keys[key].least,
				    keys[key].most);
	}
	if (optind != argc)
		return fail(-EINVAL, "bad option: %s: see --help",
			    argv[optind]);
	o->connections = value[KEY_CONNECTIONS];
	o->up = value[KEY_UP] || !value[KEY_DOWN];
	o->down = value[KEY_DOWN];
	o->request_bytes = value[KEY_REQUEST];
	o->answer_bytes = value[KEY_ANSWER];
	o->warmup_ns = value[KEY_WARMUP] * NSEC_PER_SEC;
	o->duration_ns = value[KEY_DURATION] * NSEC_PER_SEC;
	o->patience_ns = value[KEY_PATIENCE] * NSEC_PER_SEC;
	o->probe_ns = value[KEY_PROBE] * 1000;
	o->udp_bps = value[KEY_RATE] * 1e6;
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {};
	int work = 0;
	char *end;

	program_begin("xdpapp");
	if (argc > 1 && !strcmp(argv[1], "--help"))
		return help();
	if (argc == 4 && !strcmp(argv[1], "vlan")) {
		work = strtol(argv[3], &end, 10);
		if (*end || work < 1 || work > 4094)
			return fail(EXIT_CONFIG, "bad VLAN: %s: give 1 to 4094",
				    argv[3]);
		return tag(argv[2], work);
	}
	if (argc < 4)
		return fail(
			EXIT_CONFIG,
			"usage: xdpapp serve|vlan|bulk|requests|connections|udp ...: see --help");
	if (parse_address(&o, argv[2], argv[3]) ||
	    parse_options(&o, argc - 3, argv + 3))
		return EXIT_CONFIG;
	payload_begin();
	if (!strcmp(argv[1], "serve"))
		return serve(&o);
	while (work < (int)ARRAY_SIZE(works) && strcmp(argv[1], works[work]))
		work++;
	if (work == ARRAY_SIZE(works))
		return fail(EXIT_CONFIG, "bad work: %s: see --help", argv[1]);
	o.work = work;
	return work == WORK_UDP ? send_datagrams(&o) : ask(&o);
}
