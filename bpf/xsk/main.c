// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* xsk: an AF_XDP and AF_PACKET application of six roles.  See README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>
#include "report.h"
#include "util.h"
#include "watch.h"

#define EXIT_RUNTIME 1
#define EXIT_CONFIG  2

static int usage(void)
{
	fail(0,
	     "usage: xsk [--check] CONFIG.json | - , xsk --version, xsk --help");
	return EXIT_CONFIG;
}

static int print_version(void)
{
	printf("{\"version\": \"%s\", \"libbpf\": \"%s\"}\n", XSK_VERSION,
	       libbpf_version_string());
	return 0;
}

static int run_options(struct run *run)
{
	int err;

	watch_prepare();
	if (run_open(run) || run_start(run)) {
		run_close(run);
		return EXIT_CONFIG;
	}
	err = run_traffic(run) ? EXIT_RUNTIME : 0;
	if (run->error[0]) {
		fail(0, "%s", run->error);
		err = EXIT_RUNTIME;
	}
	if (print_counters(run, "done"))
		err = EXIT_RUNTIME;
	run_close(run);
	return err;
}

int main(int argc, char **argv)
{
	bool check = argc == 3 && !strcmp(argv[1], "--check");
	struct run *run;
	int err;

	program_begin("xsk");
	if (argc == 2 && !strcmp(argv[1], "--version"))
		return print_version();
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		options_help();
		return 0;
	}
	if (argc != 2 + check ||
	    (argv[argc - 1][0] == '-' && strcmp(argv[argc - 1], "-")))
		return usage();
	run = calloc(1, sizeof(*run));
	if (!run)
		return EXIT_RUNTIME;
	run->latency_fd = -1;
	if (options_load(argv[argc - 1], &run->opt))
		err = EXIT_CONFIG;
	else
		err = check ? 0 : run_options(run);
	options_free(&run->opt);
	free(run);
	return err;
}
