// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* batch STAGE FIRST SENT KIND:SEQUENCE...: how many are missing after each arrival. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "batch.h"

static enum arrival_kind kind_of(const char *text)
{
	static const char *const names[] = { [ARRIVAL_OTHER] = "other:",
					     [ARRIVAL_WARMUP] = "warmup:",
					     [ARRIVAL_COUNTED] = "trial:",
					     [ARRIVAL_AGAIN] = "again:" };
	int i;

	for (i = 0; strncmp(text, names[i], strlen(names[i])); i++)
		;
	return i;
}

int main(int argc, char **argv)
{
	struct batch batch;
	int i;

	batch_begin(&batch, !strcmp(argv[1], "warmup"),
		    strtoul(argv[2], NULL, 10), atoi(argv[3]));
	for (i = 4; i < argc; i++) {
		struct arrival got = { .kind = kind_of(argv[i]),
				       .seq = strtoul(strchr(argv[i], ':') + 1,
						      NULL, 10) };

		batch_arrival(&batch, &got);
		printf("%u\n", batch.missing);
	}
	return 0;
}
