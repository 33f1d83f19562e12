// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdlib.h>
#include <zlib.h>
#include "pack.h"

#define MAX_VARINT 9

size_t pack_room(size_t count)
{
	return count * 2 * MAX_VARINT;
}

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

__u8 *put_counts(__u8 *p, const __u64 *counts, size_t count)
{
	__s64 zeroes = 0;
	size_t i;

	for (i = 0; i < count; i++) {
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

char *base64(const __u8 *data, size_t bytes)
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

char *pack_counts(const __u64 *counts, size_t count)
{
	__u8 *plain = malloc(pack_room(count) + 1), *packed = NULL;
	uLongf bytes;
	char *text = NULL;
	size_t length;

	if (!plain)
		return NULL;
	length = put_counts(plain, counts, count) - plain;
	bytes = compressBound(length);
	packed = malloc(bytes);
	if (packed && compress2(packed, &bytes, plain, length,
				Z_BEST_COMPRESSION) == Z_OK)
		text = base64(packed, bytes);
	free(packed);
	free(plain);
	return text;
}
