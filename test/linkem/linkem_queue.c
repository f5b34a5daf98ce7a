/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of one direction by due time: a binary heap. */
#include "linkem.h"

static int frame_before(const struct linkem_frame *a, const struct linkem_frame *b)
{
	if (a->due_ns != b->due_ns)
		return a->due_ns < b->due_ns;
	return a->number < b->number;
}

void linkem_heap_push(struct linkem_line *line, struct linkem_frame *frame)
{
	size_t at = line->n++;

	while (at > 0 && frame_before(frame, line->heap[(at - 1) / 2])) {
		line->heap[at] = line->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	line->heap[at] = frame;
}

struct linkem_frame *linkem_heap_pop(struct linkem_line *line)
{
	struct linkem_frame *first, *last;
	size_t at = 0, child;

	if (line->n == 0)
		return NULL;
	first = line->heap[0];
	last = line->heap[--line->n];
	while ((child = 2 * at + 1) < line->n) {
		if (child + 1 < line->n && frame_before(line->heap[child + 1], line->heap[child]))
			child++;
		if (!frame_before(line->heap[child], last))
			break;
		line->heap[at] = line->heap[child];
		at = child;
	}
	line->heap[at] = last;
	return first;
}
