/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef XSK_TRACE_FILE_H
#define XSK_TRACE_FILE_H

#include "run.h"

/* Begin to record what becomes of batches, or end it and write the file. */
int traces_switch(struct run *run);

#endif
