// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include "choice.h"

struct choice choice_of(int kind, __u32 flows, __u64 seed, int id, __u32 first)
{
	return (struct choice){
		/* streams with one seed must not draw the same */
		.seed = choice_draw(seed, id),
		.kind = flows > 1 || kind == CHOICE_NEW ? kind : CHOICE_TURNS,
		.flows = flows,
		.first = first,
	};
}

/* In units of an even share, whose sum is @n. */
static void weigh(double *share, __u32 n, double exponent)
{
	double sum = 0;
	__u32 i;

	/* from the smallest on, so that none is lost in the sum */
	for (i = n; i-- > 0;)
		sum += share[i] = pow(i + 1.0, -exponent);
	for (i = 0; i < n; i++)
		share[i] *= n / sum;
}

int choice_fill(const struct choice *c, double exponent,
		struct choice_column *columns)
{
	__u32 n = c->flows, small = 0, large = n, i;
	double *share = malloc(n * sizeof(*share));
	__u32 *order = malloc(n * sizeof(*order));

	if (!share || !order) {
		free(share);
		free(order);
		return -ENOMEM;
	}
	weigh(share, n, exponent);
	/* @order: columns with room from the left, those that overflow behind */
	for (i = 0; i < n; i++)
		if (share[i] < 1)
			order[small++] = i;
		else
			order[--large] = i;
	for (i = 0; i < n; i++)
		columns[i] = (struct choice_column){ ~0U, i };
	while (small && large < n) {
		__u32 less = order[--small], more = order[large];

		columns[less].keep = share[less] * 4294967295.0;
		columns[less].alias = more;
		share[more] -= 1 - share[less];
		if (share[more] < 1) {
			large++;
			order[small++] = more;
		}
	}
	free(share);
	free(order);
	return 0;
}
