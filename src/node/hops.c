/* The hops of a trace: echoes with hop limits of 1, 2, 3 ... go the way of the packet that is asked
 * about, and who answers them (Time Exceeded, RFC 792 and RFC 4443 3.3, or the reply) is a hop,
 * with its round trip. Each answer must bring back what cannot be guessed: identifier, sequence
 * number and a random text, or the checksum over it where an old router quotes no more (RFC 792).
 *
 * Of a steered packet it is the hop limit in front of its segments that counts up (RFC 8986 4.1
 * S03, RFC 2473 8.1); inside is a hop limit of 1, so that behind the last segment the next router,
 * or the destination, answers. From there on the inner one counts up.
 *
 * Bounded in all: hops, tries, time, echoes a second, traces at once. */
#include "node/node_priv.h"

#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"

enum {
	HOPS = 16,
	SILENT = 3, /* hops in a row: then no further ones are asked */
	WINDOW = 4, /* hops asked at once */
	TRIES = 2,
	SENDS = 64, /* of one trace */
	AT_ONCE = 4,
	COOKIE = 16,
	HOP_LIMIT = 64, /* in front of segments, when it is the inner one that counts */
	PACKET = 128,
	CHECKSUM_AT = 2,
};

#define PACE_US  (5 * W_MS) /* between two echoes of all traces */
#define TRY_US   (700 * W_MS)
#define TOTAL_US (3 * W_SEC)
#define PING_US  (2 * W_SEC)

enum hop_state { HOP_UNSENT, HOP_ASKED, HOP_ANSWERED, HOP_SILENT };

struct hop {
	enum hop_state state;
	unsigned int tries;
	wtime asked; /* the last time */
	struct ipaddr from;
	int64_t rtt_us;
};

/* An echo that was sent. */
struct hop_echo {
	wtime at;
	uint16_t checksum;
	uint8_t hop;
	bool inside; /* it was the inner hop limit that counted */
};

struct node_hops {
	struct list list; /* node.traces */
	struct node_hops_ask ask;
	uint32_t id;
	char *peer_organization, *peer_name; /* of the first hop */
	uint16_t echo_id, first_seq;
	uint8_t cookie[COOKIE];
	struct hop_echo echo[SENDS];
	unsigned int echoes;
	struct hop hop[HOPS];
	unsigned int end;    /* hops that are asked for, as far as is known */
	unsigned int inside; /* from this hop on it is the inner hop limit that counts */
	bool reached, refused;
	enum icmp_error_type error; /* refused: what the last hop said */
	wtime until;
};

static void hops_free(struct node_hops *h)
{
	buf_free(&h->ask.text);
	buf_free(&h->ask.reason);
	w_free(h->peer_organization);
	w_free(h->peer_name);
	w_free(h);
}

void node_hops_free(struct node *n)
{
	list_for_each_safe (it, &n->traces) {
		list_del(it);
		hops_free(container_of(it, struct node_hops, list));
	}
}

/* ---- who has an address ---- */

struct named {
	const char *organization, *name;
};

static bool is_host(const struct prefix *p, const struct ipaddr *a)
{
	return p->len == ipaddr_bits(a) && prefix_contains(p, a);
}

static bool name_of_registry(const struct registry_node *r, struct named *ret)
{
	if (r)
		*ret = (struct named){r->organization, r->name};
	return r != NULL;
}

static bool name_of(struct node *n, const struct ipaddr *a, struct named *ret)
{
	const struct config *c = n->config;
	const struct registry *reg = n->registry;

	for (size_t i = 0; i < c->tun.address_count; i++)
		if (ipaddr_equal(&c->tun.address[i].ip, a)) {
			*ret = (struct named){c->node.organization, c->node.name};
			return true;
		}
	list_for_each (it, &n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);

		if (is_host(&r->prefix.destination, a) &&
			name_of_registry(node_speaker_origin(n, r->router_id), ret))
			return true;
	}
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct node_link *l = is_host(&c->static_route[i].prefix, a)
			? node_static_link(n, &c->static_route[i])
			: NULL;

		if (l) {
			*ret = (struct named){l->organization, l->name};
			return true;
		}
	}
	for (size_t i = 0; i < reg->node_count; i++)
		if (reg->node[i].has_srv6 && prefix_contains(&reg->node[i].srv6, a))
			return name_of_registry(&reg->node[i], ret);
	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (ipaddr_equal(&l->remote.ip, a)) {
			*ret = (struct named){l->organization, l->name};
			return true;
		}
	}
	return false;
}

/* ---- the reply ---- */

static void node_member(struct json *j, const struct named *who)
{
	if (!who) {
		json_null(j, "node");
		return;
	}
	json_object(j, "node");
	json_string(j, "organization", who->organization);
	json_string(j, "name", who->name);
	json_object_end(j);
}

/* The first hop is who the link leads to: known without an answer. */
static void hop_object(struct node *n, const struct node_hops *h, unsigned int i, struct json *j)
{
	const struct hop *p = &h->hop[i];
	bool answered = p->state == HOP_ANSWERED, known = false;
	struct named who;
	char text[ADDR_TEXT];

	if (answered)
		known = name_of(n, &p->from, &who);
	if (!known && i == 0 && !(answered && h->reached && h->end == 1)) {
		who = (struct named){h->peer_organization, h->peer_name};
		known = true;
	}
	json_object(j, NULL);
	node_member(j, known ? &who : NULL);
	json_string(j, "address", answered ? ipaddr_format(&p->from, text) : NULL);
	json_real(j, "rtt_ms", answered ? (double)p->rtt_us / 1000 : (double)NAN);
	json_string(j, "source", answered ? "probed" : "silent");
	json_object_end(j);
}

static const char *error_text(enum icmp_error_type e)
{
	switch (e) {
	case ICMP_NO_ROUTE:
		return "has no route";
	case ICMP_ADMIN_PROHIBITED:
		return "refuses to pass it on";
	case ICMP_PACKET_TOO_BIG:
		return "says that it is too big";
	case ICMP_PARAMETER_PROBLEM:
		return "says that it is not well-formed";
	default:
		return "cannot reach the destination";
	}
}

/* Hops to tell: silent ones at the end say nothing beyond the first of them. */
static unsigned int hops_told(const struct node_hops *h)
{
	unsigned int n = h->end;

	while (n > 0 && h->hop[n - 1].state != HOP_ANSWERED)
		n--;
	return n < h->end && h->hop[n].state != HOP_UNSENT ? n + 1 : n;
}

static void conclude(struct node_hops *h, unsigned int told)
{
	struct buf *out = &h->ask.reason;
	char text[ADDR_TEXT];

	if (h->reached)
		buf_add_str(out, "; the destination answers");
	else if (h->refused)
		buf_printf(out, "; hop %u %s", told, error_text(h->error));
	else if (told == HOPS && h->hop[HOPS - 1].state == HOP_ANSWERED)
		buf_printf(out, "; no more than %d hops are asked", HOPS);
	else if (told == 0 || h->hop[told - 1].state == HOP_ANSWERED)
		buf_add_str(out, "; the time was over before the destination was reached");
	else if (told == 1)
		buf_add_str(out, "; no hop answers");
	else
		buf_printf(out, "; nothing answers beyond hop %u", told - 1);
	if (!ipaddr_equal(&h->ask.own, &h->ask.src))
		buf_printf(out, "; hops were asked from %s, which is this node's own",
			ipaddr_format(&h->ask.own, text));
}

static void send_ids(struct node *n)
{
	struct node_action a = {.type = NODE_ACTION_PLANE, .plane = {.type = PLANE_DOWN_ECHO_IDS}};
	uint8_t ids[AT_ONCE * sizeof(uint16_t)];
	size_t len = 0;

	list_for_each (it, &n->traces) {
		put_u16(ids + len, container_of(it, struct node_hops, list)->echo_id);
		len += sizeof(uint16_t);
	}
	node_seal(n, &a, view_of(ids, len));
}

/* One echo to the destination itself. */
static void tell_ping(const struct node_hops *h, struct json *j)
{
	const struct hop *p = &h->hop[0];

	json_real(j, "rtt_ms", h->reached ? (double)p->rtt_us / 1000 : (double)NAN);
	if (h->reached)
		json_null(j, "reason");
	else if (h->refused)
		json_string(j, "reason", error_text(h->error));
	else
		json_string(j, "reason", "no answer");
}

static void tell_hops(struct node *n, struct node_hops *h, struct json *j)
{
	unsigned int told = hops_told(h);

	for (unsigned int i = 0; i < told; i++)
		hop_object(n, h, i, j);
	json_array_end(j);
	conclude(h, told);
	buf_add(&h->ask.reason, "", 1);
	json_string(j, "verdict", h->ask.verdict);
	json_string(j, "reason",
		h->ask.reason.failed ? "out of memory" : (const char *)h->ask.reason.p);
}

static void finish(struct node *n, struct node_hops *h)
{
	static const char no_memory[] = "{\"schema\":1,\"error\":\"out of memory\"}\n";
	struct json *j = &h->ask.json;

	j->out = &h->ask.text;
	if (h->ask.ping)
		tell_ping(h, j);
	else
		tell_hops(n, h, j);
	json_object_end(j);
	buf_add_str(&h->ask.text, "\n");
	if (h->ask.text.failed)
		node_reply(n, h->id, view_of(no_memory, sizeof(no_memory) - 1));
	else
		node_reply(n, h->id, buf_view(&h->ask.text));
	list_del(&h->list);
	hops_free(h);
	send_ids(n);
}

/* ---- asking ---- */

static void ask_hop(struct node *n, struct node_hops *h, unsigned int i, wtime now)
{
	bool steered = h->ask.outer.family != IP_NONE, inside = !steered || i >= h->inside;
	unsigned int behind = steered ? i - h->inside + 2 : i + 1;
	struct icmp_echo e = {
		.src = h->ask.own,
		.dst = h->ask.dst,
		.ttl = (uint8_t)(h->ask.ping ? HOP_LIMIT
				: inside     ? behind
					     : 1),
		.id = h->echo_id,
		.seq = (uint16_t)(h->first_seq + h->echoes),
		.data = view_of(h->cookie, COOKIE),
	};
	struct node_action a = {.type = NODE_ACTION_PLANE,
		.plane = {.type = PLANE_DOWN_ECHO, .routed_as = h->ask.src}};
	struct hop_echo *sent = &h->echo[h->echoes];
	uint8_t packet[PACKET];
	size_t len;

	if (icmp_echo_build(&e, packet, sizeof(packet), &len) < 0)
		return;
	if (steered)
		a.plane.hop_limit = (uint8_t)(inside ? HOP_LIMIT : i + 1);
	*sent = (struct hop_echo){.at = now,
		.hop = (uint8_t)i,
		.inside = inside,
		.checksum = get_u16(
			packet + (e.src.family == IP6 ? IP6_HEADER : IP4_HEADER) + CHECKSUM_AT)};
	h->echoes++;
	h->hop[i].state = HOP_ASKED;
	h->hop[i].tries++;
	h->hop[i].asked = now;
	node_seal(n, &a, view_of(packet, len));
}

/* One echo, for the first hop that is due. True when there was one. */
static bool ask_next(struct node *n, struct node_hops *h, wtime now)
{
	unsigned int open = 0;

	if (h->echoes == SENDS)
		return false;
	for (unsigned int i = 0; i < h->end; i++) {
		struct hop *p = &h->hop[i];

		if (p->state == HOP_UNSENT && open >= WINDOW)
			return false;
		open += p->state == HOP_ASKED;
		if (p->state == HOP_UNSENT ||
			(p->state == HOP_ASKED && p->tries < TRIES && !h->ask.ping &&
				wtime_due(wtime_add(p->asked, TRY_US), now))) {
			ask_hop(n, h, i, now);
			return true;
		}
	}
	return false;
}

static bool answered_beyond(const struct node_hops *h, unsigned int i)
{
	while (++i < h->end)
		if (h->hop[i].state == HOP_ANSWERED)
			return true;
	return false;
}

/* Hops that said nothing for long enough; a row of them ends it. True when all is known. */
static bool settle(struct node_hops *h, wtime now)
{
	int64_t patience = h->ask.ping ? PING_US : TRY_US;
	unsigned int tries = h->ask.ping ? 1 : TRIES, row = 0, open = 0;

	for (unsigned int i = 0; i < h->end; i++) {
		struct hop *p = &h->hop[i];

		if (p->state == HOP_ASKED && p->tries == tries &&
			wtime_due(wtime_add(p->asked, patience), now))
			p->state = HOP_SILENT;
		row = p->state == HOP_SILENT ? row + 1 : 0;
		if (row >= SILENT && open == 0 && !answered_beyond(h, i))
			h->end = i + 1;
		open += p->state == HOP_UNSENT || p->state == HOP_ASKED;
	}
	return open == 0 || wtime_due(h->until, now);
}

void node_hops_tick(struct node *n, wtime now)
{
	if (list_empty(&n->traces) || !wtime_due(n->traces_at, now))
		return;
	n->traces_at = wtime_add(now, PACE_US);
	list_for_each_safe (it, &n->traces) {
		struct node_hops *h = container_of(it, struct node_hops, list);

		if (settle(h, now)) {
			finish(n, h);
		} else if (ask_next(n, h, now)) {
			list_del(it); /* the others first, next time */
			list_add_tail(&n->traces, it);
			break;
		}
	}
}

/* ---- answers ---- */

static bool genuine(const struct node_hops *h, const struct plane_echo_answer *a,
	struct hop_echo *ret)
{
	const struct icmp_echo *e = &a->echo;
	size_t at = (uint16_t)(e->seq - h->first_seq);

	if (e->id != h->echo_id || at >= h->echoes)
		return false;
	*ret = h->echo[at];
	if (a->reply)
		return ipaddr_equal(&e->src, &h->ask.dst) && ipaddr_equal(&e->dst, &h->ask.own) &&
			view_equal(e->data, view_of(h->cookie, COOKIE));
	if (!ipaddr_equal(&e->src, &h->ask.own) || !ipaddr_equal(&e->dst, &h->ask.dst))
		return false;
	if (e->data.n >= COOKIE)
		return view_equal(view_of(e->data.p, COOKIE), view_of(h->cookie, COOKIE));
	return e->src.family == IP4 && a->checksum == ret->checksum;
}

/* Out of its segments and one hop on: from the next hop on it is the inner hop limit that counts.
 */
static void count_inside(struct node_hops *h, unsigned int hop)
{
	if (hop + 1 >= h->inside)
		return;
	h->inside = hop + 1;
	for (unsigned int i = h->inside; i < HOPS; i++)
		h->hop[i] = (struct hop){0};
}

static void answered(struct node_hops *h, const struct plane_echo_answer *a,
	const struct hop_echo *sent, wtime at)
{
	bool steered = h->ask.outer.family != IP_NONE, last;
	struct hop *p = &h->hop[sent->hop];

	if (sent->hop >= h->end || p->state == HOP_ANSWERED ||
		(steered && sent->inside != (sent->hop >= h->inside)))
		return;
	last = a->reply || a->error != ICMP_TIME_EXCEEDED;
	*p = (struct hop){.state = HOP_ANSWERED,
		.from = a->from,
		.rtt_us = at.us > sent->at.us ? at.us - sent->at.us : 0};
	if (last) {
		h->end = sent->hop + 1U;
		h->reached = a->reply;
		h->refused = !a->reply;
		h->error = a->error;
	} else if (steered && !a->steered) {
		count_inside(h, sent->hop);
	}
}

void node_hops_answer(struct node *n, struct view packet, wtime at, wtime now)
{
	list_for_each_safe (it, &n->traces) {
		struct node_hops *h = container_of(it, struct node_hops, list);
		const struct ipaddr *outer = &h->ask.outer;
		struct plane_echo_answer a;
		struct hop_echo sent;

		if (plane_echo_read(packet, outer->family != IP_NONE ? outer : NULL, &a) < 0 ||
			!genuine(h, &a, &sent))
			continue;
		answered(h, &a, &sent, at);
		if (settle(h, now))
			finish(n, h);
		return;
	}
}

/* ---- the start ---- */

static size_t traces(const struct node *n)
{
	size_t count = 0;

	list_for_each (it, &n->traces)
		count++;
	return count;
}

static bool id_taken(const struct node *n, uint16_t id)
{
	list_for_each (it, &n->traces)
		if (container_of(it, struct node_hops, list)->echo_id == id)
			return true;
	return false;
}

/* What nobody can guess. */
static int draw(struct node *n, struct node_hops *h)
{
	uint8_t random[sizeof(h->echo_id) + sizeof(h->first_seq)];
	int err;

	do {
		err = rng_fill(&n->rng, random, sizeof(random));
		if (err)
			return err;
		h->echo_id = get_u16(random);
		h->first_seq = get_u16(random + sizeof(h->echo_id));
	} while (id_taken(n, h->echo_id));
	return rng_fill(&n->rng, h->cookie, COOKIE);
}

uint32_t node_hops_start(struct node *n, struct node_hops_ask *a, wtime now)
{
	struct node_hops *h = traces(n) < AT_ONCE ? w_calloc(1, sizeof(*h)) : NULL;

	if (!h)
		return 0;
	h->peer_organization = w_strdup(a->via ? a->via->organization : "");
	h->peer_name = w_strdup(a->via ? a->via->name : "");
	if (!h->peer_organization || !h->peer_name || draw(n, h) < 0) {
		hops_free(h);
		return 0;
	}
	h->ask = *a;
	a->text = a->reason = (struct buf){0};
	if (++n->last_trace == 0)
		n->last_trace = 1;
	h->id = n->last_trace;
	h->end = h->inside = a->ping ? 1 : HOPS;
	h->until = wtime_add(now, TOTAL_US);
	list_add_tail(&n->traces, &h->list);
	n->traces_at = now;
	send_ids(n);
	return h->id;
}
