/* The ring. Positions only grow; a message never wraps: what is left at the end of the memory is
 * skipped, which a length that no message has tells.
 *
 * The writer owns tail, the reader owns head. A release store of either publishes what was done to
 * the bytes before it; each side keeps the other's last position, and looks again only when it
 * would otherwise find no room, or no message.
 *
 * A ring that runs empty again and again stays in the front of its memory: memory that no burst has
 * needed is never touched. */
#include "engine/ring.h"
#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum { ALIGN = 8, HEAD = 8 };
/* The front is the first of so many parts; past it the writer looks so often in each part whether
 * it may go back. */
enum { PARTS = 16, LOOKS = 8 };

static const uint64_t ring_skip = UINT64_MAX;

int ring_init(struct ring *r, size_t size)
{
	size_t n = RING_LINE;

	if (size > SIZE_MAX / 4)
		return -EINVAL;
	while (n < size)
		n *= 2;
	memset(r, 0, sizeof(*r));
	r->data = w_calloc(1, n);
	if (!r->data)
		return -ENOMEM;
	r->size = n;
	r->look = n / PARTS;
	return 0;
}

void ring_done(struct ring *r)
{
	w_free(r->data);
	r->data = NULL;
	r->size = 0;
}

/* Where in the memory a position lies. */
static size_t ring_at(const struct ring *r, size_t position)
{
	return (position - r->front) & (r->size - 1);
}

/* Begins at the front again if the reader has read all: it looks at `front` only while a message
 * waits. */
static void ring_front(struct ring *r, size_t tail)
{
	size_t part = r->size / PARTS;

	r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
	if (r->head_seen == tail)
		r->front = tail;
	r->look = tail + (r->front == tail ? part : part / LOOKS);
}

void *ring_reserve(struct ring *r, size_t n)
{
	size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	size_t at, need, skip;
	uint64_t len = n;

	/* Half of the ring at most: with what may be skipped before it, it fits an empty one. */
	if (n > r->size / 2 - HEAD)
		return NULL;
	if (tail - r->look < SIZE_MAX / 2) /* not before it */
		ring_front(r, tail);
	at = ring_at(r, tail);
	need = HEAD + ((n + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	skip = r->size - at < need ? r->size - at : 0;
	if (tail + skip + need - r->head_seen > r->size) {
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
		if (tail + skip + need - r->head_seen > r->size)
			return NULL;
	}
	if (skip)
		memcpy(r->data + at, &ring_skip, HEAD);
	at = ring_at(r, tail + skip);
	memcpy(r->data + at, &len, HEAD);
	r->reserved = need;
	r->skip = skip;
	return r->data + at + HEAD;
}

void ring_commit(struct ring *r)
{
	size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	/* In one order with a reader's word that it goes to sleep: it looks at the ring after it.
	 */
	atomic_store_explicit(&r->tail, tail + r->skip + r->reserved, memory_order_seq_cst);
	r->reserved = r->skip = 0;
}

/* Where the next message is (its head), past what was skipped; false when there is none. */
static bool ring_next(struct ring *r, size_t *ret_at, uint64_t *ret_len)
{
	size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	size_t at;

	if (head == r->tail_seen) {
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
		if (head == r->tail_seen)
			return false;
	}
	at = ring_at(r, head);
	memcpy(ret_len, r->data + at, HEAD);
	if (*ret_len == ring_skip) {
		/* A skip is published together with the message behind it. */
		head += r->size - at;
		atomic_store_explicit(&r->head, head, memory_order_release);
		at = 0;
		memcpy(ret_len, r->data, HEAD);
	}
	*ret_at = at;
	return true;
}

void *ring_peek(struct ring *r, size_t *ret_n)
{
	size_t at;
	uint64_t len;

	if (!ring_next(r, &at, &len))
		return NULL;
	*ret_n = (size_t)len;
	return r->data + at + HEAD;
}

void ring_consume(struct ring *r)
{
	size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t len;

	memcpy(&len, r->data + ring_at(r, head), HEAD);
	head += HEAD + (((size_t)len + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	atomic_store_explicit(&r->head, head, memory_order_release);
}

bool ring_empty(const struct ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire) ==
		atomic_load_explicit(&r->tail, memory_order_acquire);
}
