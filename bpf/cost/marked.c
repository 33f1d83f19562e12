// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What a program that sends by itself costs, for `xdplab cost` of our own tester:
 *
 *	marked FRAMES ROUNDS PROGRAM ONE TWO
 *
 * runs PROGRAM ONE, which sends FRAMES frames, and PROGRAM TWO, which sends
 * twice as many, between the marks that count.c looks for.  What a frame costs
 * is the slope between the two: loading and ending the program is in neither.
 * It prints a line for each run, as meter.c does for each burst.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mark.h"

#define MAX_ROUNDS 16

static int run(char *program, char *argument)
{
	char *argv[] = { program, argument, NULL };
	int status;
	pid_t child;

	/* not fork(): nothing of us is copied between the marks */
	child = vfork();
	if (!child) {
		execvp(program, argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
	static uint64_t took[2 * MAX_ROUNDS];
	int frames, rounds, i;

	if (argc != 6 || (frames = atoi(argv[1])) < 1 ||
	    (rounds = atoi(argv[2])) < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "marked FRAMES ROUNDS PROGRAM ONE TWO\n");
		return 2;
	}
	for (i = -2; i < 2 * rounds; i++) {
		uint64_t began = ticks();
		int status;

		if (i >= 0)
			MARK_ON();
		status = run(argv[3], argv[4 + (i & 1)]);
		if (i >= 0)
			MARK_OFF();
		if (status) {
			fprintf(stderr, "marked: %s %s: exit code %d\n",
				argv[3], argv[4 + (i & 1)], status);
			return 1;
		}
		if (i >= 0)
			took[i] = ticks() - began;
	}
	for (i = 0; i < 2 * rounds; i++)
		printf("burst %d %lu\n", frames << (i & 1), took[i]);
	return 0;
}
