// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* HdrHistogram V2: 40-byte header, ZigZag LEB128 counts, zlib, base64. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "hdr.h"

#define COOKIE_V2	     0x1c849313
#define COOKIE_V2_COMPRESSED 0x1c849314
#define MAX_VARINT	     9

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

static __u8 *put_varint(__u8 *p, __s64 value)
{
	__u64 rest = (__u64)value << 1 ^ value >> 63;
	int i;

	for (i = 1; i < MAX_VARINT && rest > 0x7f; i++) {
		*p++ = rest | 0x80;
		rest >>= 7;
	}
	*p++ = rest;
	return p;
}

/* A run of n zeroes is written as -n; those at the end are left out. */
static __u8 *put_counts(__u8 *p, const __u64 *counts)
{
	__s64 zeroes = 0;
	int i;

	for (i = 0; i < HDR_COUNTS; i++) {
		if (!counts[i]) {
			zeroes++;
			continue;
		}
		if (zeroes)
			p = put_varint(p, zeroes == 1 ? 0 : -zeroes);
		zeroes = 0;
		p = put_varint(p, counts[i]);
	}
	return p;
}

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

static char *base64(const __u8 *data, size_t bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((bytes + 2) / 3 * 4 + 1), *p = text;
	size_t i;

	if (!text)
		return NULL;
	for (i = 0; i < bytes; i += 3) {
		__u32 word = data[i] << 16;

		if (i + 1 < bytes)
			word |= data[i + 1] << 8;
		if (i + 2 < bytes)
			word |= data[i + 2];
		*p++ = digits[word >> 18];
		*p++ = digits[word >> 12 & 63];
		*p++ = i + 1 < bytes ? digits[word >> 6 & 63] : '=';
		*p++ = i + 2 < bytes ? digits[word & 63] : '=';
	}
	*p = 0;
	return text;
}

char *hdr_encode(const __u64 *counts)
{
	size_t room = sizeof(struct header) + HDR_COUNTS * 2 * MAX_VARINT;
	uLongf bytes = compressBound(room);
	struct compressed_header outer;
	__u8 *plain, *packed, *end;
	char *text = NULL;

	plain = malloc(room);
	packed = malloc(sizeof(outer) + bytes);
	if (!plain || !packed)
		goto out;
	end = put_counts(plain + sizeof(struct header), counts);
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
