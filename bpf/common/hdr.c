// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* HdrHistogram V2: 40-byte header, ZigZag LEB128 counts, zlib, base64. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "hdr.h"
#include "pack.h"

#define COOKIE_V2	     0x1c849313
#define COOKIE_V2_COMPRESSED 0x1c849314

struct header {
	__be32 cookie;
	__be32 payload_bytes;
	__be32 normalizing_index;
	__be32 digits;
	__be64 lowest;
	__be64 highest;
	__be64 ratio; /* double */
} __attribute__((packed));

struct compressed_header {
	__be32 cookie;
	__be32 bytes;
} __attribute__((packed));

static void put_header(struct header *h, size_t payload_bytes)
{
	double ratio = 1.0;
	__u64 bits;

	memcpy(&bits, &ratio, sizeof(bits));
	*h = (struct header){
		.cookie = htobe32(COOKIE_V2),
		.payload_bytes = htobe32(payload_bytes),
		.digits = htobe32(HDR_DIGITS),
		.lowest = htobe64(1),
		.highest = htobe64(HDR_HIGHEST_NS),
		.ratio = htobe64(bits),
	};
}

char *hdr_encode(const __u64 *counts)
{
	size_t room = sizeof(struct header) + pack_room(HDR_COUNTS);
	uLongf bytes = compressBound(room);
	struct compressed_header outer;
	__u8 *plain, *packed, *end;
	char *text = NULL;

	plain = malloc(room);
	packed = malloc(sizeof(outer) + bytes);
	if (!plain || !packed)
		goto out;
	end = put_counts(plain + sizeof(struct header), counts, HDR_COUNTS);
	put_header((struct header *)plain, end - plain - sizeof(struct header));
	if (compress(packed + sizeof(outer), &bytes, plain, end - plain) !=
	    Z_OK)
		goto out;
	outer.cookie = htobe32(COOKIE_V2_COMPRESSED);
	outer.bytes = htobe32(bytes);
	memcpy(packed, &outer, sizeof(outer));
	text = base64(packed, sizeof(outer) + bytes);
out:
	free(plain);
	free(packed);
	return text;
}
