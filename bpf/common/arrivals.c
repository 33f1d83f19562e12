// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "arrivals.h"
#include "util.h"

static bool has_arrived(const __u64 *window, __u64 seq)
{
	__u64 word = window[window_index(seq)];

	return word >> 32 == window_lap(seq) && word & 1U << (seq & 31);
}

bool arrivals_last_missing(const struct arrivals *a, const __u64 *window,
			   __u64 *seq)
{
	/* the words of the window end with that of the highest */
	__u64 end = (a->next + 31) & ~31ULL;
	__u64 oldest = end - min(end, WINDOW_FRAMES);

	for (*seq = a->next; *seq > oldest;)
		if (!has_arrived(window, --*seq))
			return true;
	*seq = a->gone - 1;
	return a->gone;
}

bool arrivals_merge(struct arrivals *sum, const struct arrivals *other)
{
	const struct arrivals *first = sum, *then = other;
	bool in_turns = true;

	if (!sum->previous_ns ||
	    (other->previous_ns && other->first_ns < sum->first_ns)) {
		first = other;
		then = sum;
	}
	if (then->previous_ns) {
		in_turns = first->previous_ns <= then->first_ns;
		sum->longest_ns = max(sum->longest_ns, other->longest_ns);
		if (in_turns)
			sum->longest_ns =
				max(sum->longest_ns,
				    then->first_ns - first->previous_ns);
	} else {
		sum->longest_ns = first->longest_ns;
	}
	sum->first_ns = first->first_ns;
	sum->previous_ns = max(sum->previous_ns, other->previous_ns);
	sum->received += other->received;
	sum->duplicated += other->duplicated;
	sum->damaged += other->damaged;
	sum->out_of_order += other->out_of_order;
	sum->beyond_window += other->beyond_window;
	sum->warmup += other->warmup;
	sum->next = max(sum->next, other->next);
	sum->gone = max(sum->gone, other->gone);
	return in_turns;
}
