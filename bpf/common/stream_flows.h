/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The flows of streams: how one is chosen, and its addresses. */
#ifndef XDPLAB_STREAM_FLOWS_H
#define XDPLAB_STREAM_FLOWS_H

#include "intact.h"
#include "stream_types.h"

/* How one of the streams chooses among its flows. */
struct choice stream_choice(const struct stream *streams, int index);

/* What must be as it was sent where frames of a stream arrive. */
struct intact stream_intact(const struct stream *s);

/* The table of @count streams, to be freed, or NULL. */
struct choice_column *streams_choices(const struct stream *streams, int count);

/* The range of a stream's sources or targets. */
struct gen_range stream_sources(const struct stream *s);
struct gen_range stream_targets(const struct stream *s);

#endif
