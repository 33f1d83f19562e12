// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The reader of configurations, of xdpgen or (XSK) of xsk, on one after another
 * in this process: a line with their length on stdin, then the bytes.  For each
 * a line: was it taken (0) or not (1), and what was said on stderr, escaped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include "util.h"
#ifdef XSK
#include "options.h"
#else
#include "../xdpgen/config.h"
#endif

#define MOST_BYTES (1 << 20)

static int is_refused(const char *path)
{
	int err;
#ifdef XSK
	static struct options options;

	memset(&options, 0, sizeof(options));
	err = options_load(path, &options);
	options_free(&options);
#else
	static struct config config;
	FILE *in = fopen(path, "r");

	err = config_read(in, path, &config);
	fclose(in);
#endif
	return err != 0;
}

static void print_escaped(const char *text, ssize_t bytes)
{
	ssize_t i;

	for (i = 0; i < bytes; i++) {
		unsigned char c = text[i];

		if (c >= ' ' && c < 127 && c != '\\')
			putchar(c);
		else
			printf("\\x%02x", c);
	}
	putchar('\n');
	fflush(stdout);
}

int main(void)
{
	int given = memfd_create("given", 0), said = memfd_create("said", 0);
	static char text[MOST_BYTES];
	char path[32], line[32];

	program_begin("mutations");
	__sanitizer_set_report_fd((void *)(long)dup(STDERR_FILENO));
	dup2(said, STDERR_FILENO);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", given);
	while (fgets(line, sizeof(line), stdin)) {
		size_t bytes = strtoul(line, NULL, 10);

		if (bytes > sizeof(text) ||
		    fread(text, 1, bytes, stdin) != bytes ||
		    ftruncate(given, 0) || ftruncate(said, 0) ||
		    pwrite(given, text, bytes, 0) != (ssize_t)bytes)
			return 2;
		lseek(said, 0, SEEK_SET);
		printf("%d ", is_refused(path));
		print_escaped(text, pread(said, text, sizeof(text), 0));
	}
	return 0;
}
