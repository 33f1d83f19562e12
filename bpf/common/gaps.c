// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <math.h>
#include "gaps.h"
#include "gen.h"

const __u32 *gen_gaps(void)
{
	static __u32 gaps[GEN_GAP_CELLS];
	double quantile[GEN_GAP_CELLS], sum = 0, mean, last;
	int i;

	if (gaps[1])
		return gaps;
	for (i = 0; i < GEN_GAP_CELLS; i++)
		quantile[i] = -log1p(-(double)i / GEN_GAP_CELLS);
	last = quantile[GEN_GAP_CELLS - 1];
	for (i = 1; i < GEN_GAP_CELLS; i++)
		sum += (quantile[i - 1] + quantile[i]) / 2;
	/* of cells and, in the last one, of what comes beyond it again */
	mean = (sum + last) / (GEN_GAP_CELLS - 1);
	for (i = 0; i < GEN_GAP_CELLS; i++)
		gaps[i] = lround(quantile[i] / mean * (1 << GEN_GAP_BITS));
	return gaps;
}
