// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <linux/mman.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "umem.h"
#include "util.h"

#define HUGE_BYTES (2UL << 20)

/*
 * Enough for every ring to be full: what is in the fill ring moves on to the
 * RX ring while the fill ring is filled anew.
 */
static __u32 frames_wanted(const struct io_options *o, int queues)
{
	long long each = 0;

	if (o->frames)
		return o->frames;
	if (o->receive)
		each += o->rx_ring + o->fill_ring;
	if (o->transmit)
		each += o->tx_ring;
	return each * queues;
}

static int map_area(struct umem *u, bool hugepages)
{
	size_t unit = hugepages ? HUGE_BYTES : 4096;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	void *area;

	u->bytes = (size_t)u->frames * u->chunk;
	u->bytes = (u->bytes + unit - 1) / unit * unit;
	if (hugepages)
		flags |= MAP_HUGETLB | MAP_HUGE_2MB; /* not the default size */
	area = mmap(NULL, u->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (area == MAP_FAILED) {
		if (hugepages)
			return fail(
				-errno,
				"cannot map UMEM on hugepages: %zu bytes: %s: reserve %zu pages in /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, or set hugepages false",
				u->bytes, explain(-errno),
				u->bytes / HUGE_BYTES);
		return fail(-errno, "cannot map UMEM: %zu bytes: %s", u->bytes,
			    explain(-errno));
	}
	u->area = area;
	u->hugepages = hugepages;
	return 0;
}

int umem_open(struct umem *u, const struct io_options *o, int queues)
{
	__u32 i, spans;
	int err;

	*u = (struct umem){ .frames = frames_wanted(o, queues),
			    .chunk = o->chunk_bytes,
			    .span = max(o->span, 1),
			    .unaligned = o->unaligned };
	/* no queue takes the chunks of another, nor all that are to be sent */
	u->quota = u->frames / queues / (o->transmit ? 2 : 1);
	err = map_area(u, o->hugepages);
	if (err)
		return err;
	u->free = calloc(u->frames, sizeof(*u->free));
	if (o->audit)
		u->place = calloc(u->frames, sizeof(*u->place));
	if (!u->free || (o->audit && !u->place))
		return fail(-ENOMEM, "cannot allocate: %u frames: too many",
			    u->frames);
	/* the first chunks on top */
	spans = u->frames / u->span;
	for (i = 0; i < spans; i++)
		u->free[i] = (__u64)(spans - 1 - i) * u->span * u->chunk;
	u->num_free = spans;
	return 0;
}

void umem_close(struct umem *u)
{
	if (u->handle)
		xsk_umem__delete(u->handle);
	if (u->area)
		munmap(u->area, u->bytes);
	free(u->free);
	free(u->place);
	*u = (struct umem){};
}

void umem_places(const struct umem *u, __u64 counts[CHUNK_PLACES])
{
	__u32 i;

	memset(counts, 0, CHUNK_PLACES * sizeof(*counts));
	for (i = 0; u->place && i < u->frames; i++)
		counts[u->place[i]]++;
}
