/* The source table: feasibility distances (RFC 8966 3.2.5, 3.5.1, 3.7.3). A prefix has few sources,
 * and only updates of our own make one. */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

struct babel_source *babel_source_find(const struct babel_dest *d, const uint8_t id[static 8])
{
	list_for_each (it, &d->sources) {
		struct babel_source *s = container_of(it, struct babel_source, link);

		if (memcmp(s->router_id, id, sizeof(s->router_id)) == 0)
			return s;
	}
	return NULL;
}

/* RFC 8966 3.5.1. */
bool babel_feasible(const struct babel_dest *d, const uint8_t id[static 8], uint16_t seqno,
	uint16_t metric)
{
	const struct babel_source *s;

	if (metric == BABEL_INFINITY)
		return true;
	s = babel_source_find(d, id);
	return !s || babel_seqno_less(s->seqno, seqno) || (s->seqno == seqno && metric < s->metric);
}

static void gc(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_source *s = container_of(t, struct babel_source, gc);
	struct babel_dest *d = s->dest;

	(void)now;
	babel_source_free(b, s);
	babel_dest_put(b, d);
}

int babel_source_announce(struct babel *b, struct babel_dest *d, const struct babel_update *u,
	wtime now)
{
	struct babel_source *s = babel_source_find(d, u->router_id);
	int64_t twice = 2 * (int64_t)u->interval * BABEL_CENTISECOND_US;

	if (!s) {
		/* a new entry starts with what is sent: there is no seqno that is below all */
		s = w_calloc(1, sizeof(*s));
		if (!s || babel_timer_init(b, &s->gc, gc) < 0) {
			w_free(s);
			babel_drop(b, BABEL_DROP_NO_MEMORY);
			return -ENOMEM;
		}
		s->dest = d;
		s->seqno = u->seqno;
		s->metric = u->metric;
		memcpy(s->router_id, u->router_id, sizeof(s->router_id));
		list_add_tail(&d->sources, &s->link);
		b->stats.sources++;
		babel_backup_check(b, d);
	} else if (babel_seqno_less(s->seqno, u->seqno)) {
		s->seqno = u->seqno;
		s->metric = u->metric;
		babel_backup_check(b, d);
	} else if (s->seqno == u->seqno && u->metric < s->metric) {
		s->metric = u->metric;
		babel_backup_check(b, d);
	}
	babel_timer_late(b, &s->gc, now, twice > BABEL_SOURCE_GC_US ? twice : BABEL_SOURCE_GC_US);
	return 0;
}

void babel_source_free(struct babel *b, struct babel_source *s)
{
	babel_timer_done(b, &s->gc);
	list_del(&s->link);
	b->stats.sources--;
	w_free(s);
}
