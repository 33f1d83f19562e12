// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* xdpgen: paced sender and exact receiver in the kernel.  See README.md. */
#include <errno.h>
#include <sched.h>
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
	     "usage: xdpgen [--check] CONFIG.json | - , xdpgen --version, xdpgen --help");
	return EXIT_CONFIG;
}

static int print_version(void)
{
	printf("{\"version\": \"%s\", \"libbpf\": \"%s\"}\n", XDPGEN_VERSION,
	       libbpf_version_string());
	return 0;
}

static int run_trial(struct run *run, const struct config *cfg)
{
	int err;

	watch_prepare();
	if (run_open(run, cfg))
		return EXIT_CONFIG;
	err = run_traffic(run);
	if (err)
		fail(err, "%s", run->error);
	return result_print(run) || err ? EXIT_RUNTIME : 0;
}

/* A trial for each configuration, until they end, one fails, or a signal came. */
static int serve(FILE *in, const char *path, bool check)
{
	struct config *cfg = calloc(1, sizeof(*cfg));
	struct run *run = calloc(1, sizeof(*run));
	cpu_set_t cpus;
	int err;

	if (!cfg || !run || sched_getaffinity(0, sizeof(cpus), &cpus))
		return EXIT_RUNTIME;
	setvbuf(in, NULL, _IONBF, 0); /* what poll() does not know of */
	do {
		/* a trial ends on the core of its sender */
		sched_setaffinity(0, sizeof(cpus), &cpus);
		if (config_read(in, path, cfg) ||
		    (check && check_ports_free(cfg)))
			err = EXIT_CONFIG;
		else
			err = check ? 0 : run_trial(run, cfg);
	} while (!err && !run->interrupted && watch_input(in));
	run_close(run);
	free(run);
	free(cfg);
	return err;
}

int main(int argc, char **argv)
{
	bool check = argc == 3 && !strcmp(argv[1], "--check");
	const char *path = argv[argc - 1];
	FILE *in = stdin;
	int err;

	program_begin("xdpgen");
	if (argc == 2 && !strcmp(path, "--version"))
		return print_version();
	if (argc == 2 && !strcmp(path, "--help")) {
		config_help();
		return 0;
	}
	if (argc != 2 + check || (path[0] == '-' && strcmp(path, "-")))
		return usage();
	if (strcmp(path, "-"))
		in = fopen(path, "r");
	if (!in) {
		fail(0, "cannot read %s: %s", path, strerror(errno));
		return EXIT_CONFIG;
	}
	err = serve(in, path, check);
	fclose(in);
	return err;
}
