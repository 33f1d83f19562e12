// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "batch_record.h"

void batches_begin(FILE *file)
{
	fprintf(file,
		"\"columns\":[\"begun\",\"received\",\"queued\",\"kicked\",\"reaped\",\"frames\",\"sent\"],\"records\":[");
}

void batch_print(FILE *file, const struct batch_record *r, bool first)
{
	fprintf(file, "%s[%llu,%llu,%llu,%llu,%llu,%u,%u]", first ? "" : ",\n",
		r->begun, r->received, r->queued, r->kicked, r->reaped,
		r->frames, r->sent);
}
