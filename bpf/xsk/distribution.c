// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <math.h>
#include <stdlib.h>
#include "distribution.h"
#include "hdr.h"

json_t *distribution_json(const struct distribution *d)
{
	char *text = hdr_encode(d->hdr);
	double mean = d->count ? d->sum_ns / d->count : 0;
	double variance =
		d->count ? d->sum_squares / d->count - mean * mean : 0;
	json_t *json = json_object();

	json_object_set_new(json, "count", json_integer(d->count));
	json_object_set_new(json, "min_ns",
			    d->count ? json_integer(d->min_ns) : json_null());
	json_object_set_new(json, "max_ns",
			    d->count ? json_integer(d->max_ns) : json_null());
	json_object_set_new(json, "mean_ns",
			    d->count ? json_real(mean) : json_null());
	json_object_set_new(json, "rms_ns",
			    d->count ? json_real(sqrt(fmax(variance, 0))) :
				       json_null());
	json_object_set_new(json, "hdr",
			    text ? json_string(text) : json_null());
	free(text);
	return json;
}
