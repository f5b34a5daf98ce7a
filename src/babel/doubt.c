/* Routes that are still there only because nobody has tried them. Where a node dies, each of its
 * neighbours must find that out over a link of its own, and one that had nothing to send may do so
 * seconds after the others. Until then it offers a way through the dead node, which is feasible and
 * loses every packet.
 *
 * So whoever suspects a neighbour asks those that its traffic would go to next for the routes in
 * question (route requests, RFC 8966 3.8.1.1). It answers any router with an update; this one also
 * takes such a question, and a retraction of what it has a route to itself, as a reason to look
 * whether its own next hop lives, and asks that one in turn when the prefix is farther away. Not
 * seqno requests: they would reach the origin, too, but make it tell all its neighbours anew each
 * time that a far link is slow. Few questions in a time on each interface, whatever the number of
 * routes. */
#include "babel/babel_priv.h"

enum {
	ASKED_MAX = 8, /* interfaces of one suspicion */
	SCAN_MAX = 1024,
	QUESTIONS = 4, /* on an interface in a time */
	QUESTIONS_US = 2000000,
};

static void ask(struct babel *b, const struct babel_route *r, wtime now)
{
	struct babel_iface *ifc = r->neighbour->ifc;

	if (wtime_diff(now, ifc->asked_since) >= QUESTIONS_US) {
		ifc->asked_since = now;
		ifc->asked = 0;
	}
	if (ifc->asked == QUESTIONS || r->advertised == 0)
		return; /* who announces it as its own can say no more */
	ifc->asked++;
	babel_request_route(b, r->neighbour, &r->dest->prefix, now);
}

void babel_doubt_next_hop(struct babel *b, const struct babel_dest *d,
	const struct babel_neighbour *by, bool asked, wtime now)
{
	const struct babel_route *r = d->selected;

	if (!r || r->neighbour->ifc == by->ifc || r->neighbour->ifc->dead)
		return;
	if (list_empty(&r->neighbour->ifc->doubt))
		list_add_tail(&b->doubts, &r->neighbour->ifc->doubt);
	if (asked)
		ask(b, r, now);
}

void babel_doubt_moved(struct babel *b, const struct babel_route *to, wtime now)
{
	ask(b, to, now);
}

/* Those that are asked because of one suspicion. */
struct asked {
	const struct babel_iface *suspect;
	const struct babel_iface *iface[ASKED_MAX];
	size_t n;
};

static bool is_asked(const struct asked *a, const struct babel_iface *ifc)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->iface[i] == ifc)
			return true;
	return a->suspect == ifc;
}

static void ask_once(struct babel *b, struct asked *a, const struct babel_route *r, wtime now)
{
	if (a->n == ASKED_MAX || is_asked(a, r->neighbour->ifc))
		return;
	a->iface[a->n++] = r->neighbour->ifc;
	ask(b, r, now);
}

/* The best feasible route by an interface that has not been asked. */
static const struct babel_route *next_best(const struct babel_dest *d, const struct asked *a)
{
	const struct babel_route *best = NULL;

	for (size_t i = 0; i < d->n; i++) {
		const struct babel_route *r = d->route[i];

		if (babel_route_metric(r) != BABEL_INFINITY && !is_asked(a, r->neighbour->ifc) &&
			(!best || babel_route_metric(r) < babel_route_metric(best)) &&
			babel_feasible(d, r->router_id, r->seqno, r->advertised))
			best = r;
	}
	return best;
}

/* What is in use and comes from nearest behind the suspect: most likely its own. */
static const struct babel_route *nearest(const struct babel_neighbour *n)
{
	const struct babel_route *best = NULL;
	size_t seen = 0;

	list_for_each (it, &n->routes) {
		const struct babel_route *r = container_of(it, struct babel_route, by_neighbour);

		if (++seen > SCAN_MAX)
			break;
		if (r == r->dest->selected && (!best || r->advertised < best->advertised))
			best = r;
	}
	return best;
}

static void doubt_neighbour(struct babel *b, const struct babel_neighbour *n, wtime now)
{
	const struct babel_route *own = nearest(n), *r;
	struct asked a = {.suspect = n->ifc};
	size_t seen = 0;

	/* most of them for what the suspect is itself, the rest for where its routes go next */
	while (own && a.n < ASKED_MAX * 3 / 4 && (r = next_best(own->dest, &a)))
		ask_once(b, &a, r, now);
	list_for_each (it, &n->routes) {
		const struct babel_dest *d =
			container_of(it, struct babel_route, by_neighbour)->dest;

		if (++seen > SCAN_MAX || a.n == ASKED_MAX)
			break;
		if (d->backup && d->selected && d->selected->neighbour == n)
			ask_once(b, &a, d->backup, now);
	}
}

void babel_iface_doubt(struct babel *b, uint32_t iface, wtime now)
{
	const struct babel_iface *ifc = babel_iface_find(b, iface);

	if (!ifc || ifc->dead)
		return;
	list_for_each (it, &ifc->neighbours)
		doubt_neighbour(b, container_of(it, struct babel_neighbour, by_iface), now);
}
