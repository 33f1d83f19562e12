// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* xdpgen: paced sender and exact receiver in the kernel.  See README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>
#include "util.h"
#include "watch.h"

#define EXIT_RUNTIME 1
#define EXIT_CONFIG  2

static int usage(void)
{
	fail(0,
	     "usage: xdpgen [--check] CONFIG.json | - , xdpgen --version: see bpf/README.md");
	return EXIT_CONFIG;
}

static int print_version(void)
{
	printf("{\"version\": \"%s\", \"libbpf\": \"%s\"}\n", XDPGEN_VERSION,
	       libbpf_version_string());
	return 0;
}

static int run_config(struct run *run)
{
	int err;

	watch_prepare();
	if (run_open(run))
		return EXIT_CONFIG;
	err = run_traffic(run);
	if (err)
		fail(err, "%s", run->error);
	err = result_print(run) || err ? EXIT_RUNTIME : 0;
	run_close(run);
	return err;
}

int main(int argc, char **argv)
{
	bool check = argc == 3 && !strcmp(argv[1], "--check");
	struct run *run;
	int err;

	program_begin("xdpgen");
	if (argc == 2 && !strcmp(argv[1], "--version"))
		return print_version();
	if (argc != 2 + check ||
	    (argv[argc - 1][0] == '-' && strcmp(argv[argc - 1], "-")))
		return usage();
	run = calloc(1, sizeof(*run));
	if (!run)
		return EXIT_RUNTIME;
	if (config_load(argv[argc - 1], &run->cfg))
		err = EXIT_CONFIG;
	else
		err = check ? 0 : run_config(run);
	free(run);
	return err;
}
