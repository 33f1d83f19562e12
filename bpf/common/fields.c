// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "fields.h"
#include "util.h"

int bad_value(const char *where, const char *key, const char *what_to_do)
{
	return fail(-EINVAL, "bad configuration: %s%s%s: %s", where,
		    *where && *key ? "." : "", key, what_to_do);
}

static int read_bool(const json_t *value, const struct field *f, void *to,
		     const char *where)
{
	if (!json_is_boolean(value))
		return bad_value(where, f->key, "must be true or false");
	*(bool *)to = json_is_true(value);
	return 0;
}

static int read_number(const json_t *value, const struct field *f, void *to,
		       const char *where)
{
	bool integer = f->type == FIELD_INT;
	double number = json_number_value(value);
	char text[128];

	if (!(integer ? json_is_integer(value) : json_is_number(value)) ||
	    !(number >= f->min && number <= f->max)) {
		snprintf(text, sizeof(text), "must be %s from %.15g to %.15g%s",
			 integer ? "an integer" : "a number", f->min, f->max,
			 f->nullable ? ", or null" : "");
		return bad_value(where, f->key, text);
	}
	if (integer)
		*(long long *)to = json_integer_value(value);
	else
		*(double *)to = number;
	return 0;
}

static int read_string(const json_t *value, const struct field *f, void *to,
		       const char *where)
{
	const char *string = json_string_value(value);
	char text[96];

	if (!string || !*string || strlen(string) >= f->size ||
	    strlen(string) != json_string_length(value)) {
		snprintf(text, sizeof(text),
			 "must be a string of 1 to %zu characters%s",
			 f->size - 1, f->nullable ? ", or null" : "");
		return bad_value(where, f->key, text);
	}
	strcpy(to, string);
	return 0;
}

static int read_enum(const json_t *value, const struct field *f, void *to,
		     const char *where)
{
	const char *string = json_string_value(value);
	char text[128] = "must be one of";
	int i;

	for (i = 0; f->names[i]; i++) {
		if (string && !strcmp(string, f->names[i])) {
			*(int *)to = i;
			return 0;
		}
		strncat(text, " ", sizeof(text) - strlen(text) - 1);
		strncat(text, f->names[i], sizeof(text) - strlen(text) - 1);
	}
	return bad_value(where, f->key, text);
}

static int read_mac(const json_t *value, const struct field *f, void *to,
		    const char *where)
{
	const char *string = json_string_value(value);
	unsigned char *mac = to;
	char rest;

	if (!string || strlen(string) != 17 ||
	    sscanf(string, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%c", &mac[0],
		   &mac[1], &mac[2], &mac[3], &mac[4], &mac[5], &rest) != 6)
		return bad_value(
			where, f->key,
			"must be a MAC address like 02:00:00:00:00:01");
	return 0;
}

static int read_field(const json_t *value, const struct field *f, void *to,
		      const char *where)
{
	if (json_is_null(value) && f->nullable)
		return 0;
	switch (f->type) {
	case FIELD_BOOL:
		return read_bool(value, f, to, where);
	case FIELD_INT:
	case FIELD_NUMBER:
		return read_number(value, f, to, where);
	case FIELD_STRING:
		return read_string(value, f, to, where);
	case FIELD_ENUM:
		return read_enum(value, f, to, where);
	case FIELD_MAC:
		return read_mac(value, f, to, where);
	case FIELD_ARRAY:
		if (!json_is_array(value))
			return bad_value(where, f->key, "must be an array");
		*(const json_t **)to = value;
		return 0;
	case FIELD_OBJECT:
		if (!json_is_object(value))
			return bad_value(where, f->key, "must be an object");
		*(const json_t **)to = value;
		return 0;
	}
	return -EINVAL;
}

static int reject_unknown(const json_t *object, const char *where,
			  const struct field *fields, size_t count)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach ((json_t *)object, key, value) {
		for (i = 0; i < count; i++)
			if (!strcmp(key, fields[i].key))
				break;
		if (i == count)
			return bad_value(where, key, "unknown key: remove it");
	}
	return 0;
}

int fields_read(const json_t *object, const char *where,
		const struct field *fields, size_t count, void *base)
{
	const json_t *value;
	int err;
	size_t i;

	if (!json_is_object(object))
		return bad_value(where, "", "must be an object");
	err = reject_unknown(object, where, fields, count);
	for (i = 0; !err && i < count; i++) {
		value = json_object_get(object, fields[i].key);
		if (value)
			err = read_field(value, &fields[i],
					 (char *)base + fields[i].offset,
					 where);
		else if (fields[i].required)
			err = bad_value(where, fields[i].key,
					"missing: add it");
	}
	return err;
}

static void print_values(const struct field *f, char *text, size_t size)
{
	static const char *const kinds[] = {
		[FIELD_BOOL] = "true or false", [FIELD_STRING] = "string",
		[FIELD_MAC] = "MAC address",	[FIELD_ARRAY] = "array",
		[FIELD_OBJECT] = "object",
	};
	int i;

	if (f->type == FIELD_INT || f->type == FIELD_NUMBER) {
		snprintf(text, size, "%.10g to %.10g", f->min, f->max);
	} else if (f->type == FIELD_ENUM) {
		*text = 0;
		for (i = 0; f->names[i]; i++) {
			strncat(text, i ? "|" : "", size - strlen(text) - 1);
			strncat(text, f->names[i], size - strlen(text) - 1);
		}
	} else {
		snprintf(text, size, "%s", kinds[f->type]);
	}
}

static void print_default(const struct field *f, const void *at, char *text,
			  size_t size)
{
	if (f->required)
		snprintf(text, size, "required");
	else if (f->type == FIELD_BOOL)
		snprintf(text, size, *(const bool *)at ? "true" : "false");
	else if (f->type == FIELD_INT && f->nullable &&
		 *(const long long *)at < (f->min ?: 0))
		snprintf(text, size, "null");
	else if (f->type == FIELD_INT)
		snprintf(text, size, "%lld", *(const long long *)at);
	else if (f->type == FIELD_NUMBER)
		snprintf(text, size, "%.10g", *(const double *)at);
	else if (f->type == FIELD_ENUM)
		snprintf(text, size, "%s", f->names[*(const int *)at]);
	else if (f->type == FIELD_STRING && *(const char *)at)
		snprintf(text, size, "%s", (const char *)at);
	else
		snprintf(text, size, "none");
}

void fields_help(const char *title, const struct field *fields, size_t count,
		 const void *defaults)
{
	char values[160], value[160];
	size_t i;

	printf("%s\n", title);
	for (i = 0; i < count; i++) {
		print_values(&fields[i], values, sizeof(values));
		print_default(&fields[i],
			      (const char *)defaults + fields[i].offset, value,
			      sizeof(value));
		printf("  %-16s %s (%s)%s%s\n", fields[i].key, values, value,
		       fields[i].help ? ": " : "", fields[i].help ?: "");
	}
}
