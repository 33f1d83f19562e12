// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <string.h>
#include "choice.h"
#include "payload.h"

#define PERIOD 262139 /* prime; half of a core's L2 cache */

static __u8 block[PERIOD + PAYLOAD_CHUNK];

void payload_begin(void)
{
	size_t i;

	for (i = 0; i < PERIOD; i++)
		block[i] = choice_draw(1, i);
	memcpy(block + PERIOD, block, PAYLOAD_CHUNK);
}

const __u8 *payload(__u32 seed, __u64 offset)
{
	return block + (choice_draw(seed, 0) % PERIOD + offset) % PERIOD;
}

bool payload_intact(__u32 seed, __u64 offset, const __u8 *data, size_t bytes)
{
	return !memcmp(payload(seed, offset), data, bytes);
}
