/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Strict, table-driven reading of JSON objects. */
#ifndef XDPLAB_FIELDS_H
#define XDPLAB_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

enum field_type {
	FIELD_BOOL,   /* bool */
	FIELD_INT,    /* long long, from min to max */
	FIELD_NUMBER, /* double, from min to max */
	FIELD_STRING, /* char[size] */
	FIELD_ENUM,   /* int: index into names */
	FIELD_MAC,    /* unsigned char[6] */
	FIELD_ARRAY,  /* json_t *, borrowed */
	FIELD_OBJECT, /* the same */
};

struct field {
	const char *key;
	enum field_type type;
	size_t offset;
	double min;
	double max;
	size_t size;
	const char *const *names; /* NULL-terminated */
	bool required;
	bool nullable; /* null leaves the default */
	const char *help;
};

/*
 * Fill the struct at @base from @object.  @where names the object in errors,
 * e.g. "streams[1]".  Returns 0 or -EINVAL after one line on stderr.
 */
int fields_read(const json_t *object, const char *where,
		const struct field *fields, size_t count, void *base);

/*
 * Print a line for each key: what it takes, its default in the struct at
 * @defaults, and what it is.
 */
void fields_help(const char *title, const struct field *fields, size_t count,
		 const void *defaults);

/* One line for a value that is wrong; returns -EINVAL. */
int bad_value(const char *where, const char *key, const char *what_to_do);

#endif
