/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of batches as JSON: the names of their columns are told, so nobody counts them. */
#ifndef XDPLAB_BATCH_PRINT_H
#define XDPLAB_BATCH_PRINT_H

#include <stdbool.h>
#include <stdio.h>
#include "batch_record.h"

/* The members "columns" and "records" of an object; the caller closes "records". */
void batches_begin(FILE *file);
void batch_print(FILE *file, const struct batch_record *r, bool first);

#endif
