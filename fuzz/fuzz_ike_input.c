/* Two whole IKE engines with real keys, and the input is everything that can happen between them:
 * messages lost, twice, out of order, from another port, damaged, rewritten before they are
 * encrypted, or made up and sealed with the peer's keys; commands, restarts and time. One byte of
 * options, one of seed, then steps: a byte for what and to which end, and the bytes it takes. */
#include <string.h>
#include "base/mem.h"
#include "fuzz.h"
#include "ike/open_priv.h"
#include "ike/sa_priv.h"

enum {
	CONN = 7,
	STEPS_MAX = 200,
	TIME_MAX_S = 7200,
	WIRE_MAX = 128,
	CHILDREN = 256,
	DATAGRAM_MAX = 1280,
	TICKS_MAX = 10000, /* at one and the same time: an engine that goes round */
	RUN_MAX = 400,     /* messages in one run */
	DELAY_US = 10000,
	CALM_S = 300, /* lossless seconds in which the ends must find each other */
};

enum step {
	STEP_DELIVER,
	STEP_DROP,
	STEP_TWICE,
	STEP_DAMAGE,
	STEP_REWRITE,
	STEP_RAW,
	STEP_FORGE,
	STEP_TIME,
	STEP_COMMAND,
	STEP_RUN,
	STEP_COUNT
};

enum command {
	CMD_REKEY_IKE,
	CMD_REKEY_CHILD,
	CMD_PROBE,
	CMD_UP,
	CMD_DOWN,
	CMD_TRY_REMOTE,
	CMD_JUDGED_DOWN,
	CMD_HEARD,
	CMD_SOFT_LIMIT,
	CMD_SET_REMOTE,
	CMD_UPDATE,
	CMD_REMOVE,
	CMD_RESTART,
	CMD_COUNT
};

struct packet {
	unsigned int to;
	bool from_other; /* its source is the sender's other port */
	size_t n;
	uint8_t *data;
};

struct end {
	struct ike *ike;
	struct rng_seeded seeded;
	struct rng rng;
	struct ed25519_key *key;
	uint8_t public_key[ED25519_PUBLIC];
	char id[16];
	struct endpoint at, other;
	struct ike_child_info child[CHILDREN]; /* child 0: free */
	uint32_t outbound;
	bool there; /* has its connection */
};

struct bench {
	wtime now;
	struct end end[2];
	struct packet wire[WIRE_MAX];
	size_t waiting;
	uint8_t options;
	bool honest; /* nothing was made up with a key so far */
};

/* ---- Ends ---- */
static void conn_config(const struct bench *b, unsigned int which, struct ike_conn_config *ret)
{
	const struct end *e = &b->end[which], *peer = &b->end[1 - which];

	*ret = (struct ike_conn_config){.id = CONN,
		.local_id = view_of(e->id, strlen(e->id)),
		.remote_id = view_of(peer->id, strlen(peer->id)),
		.local = e->at,
		.remote = peer->at,
		.initiate = which == 0 || (b->options & 1),
		.post_quantum = b->options & 2 ? IKE_PQ_PREFER : IKE_PQ_OFF,
		.ike_lifetime_us = b->options & 4 ? 60 * W_SEC : 0,
		.child_lifetime_us = b->options & 8 ? 40 * W_SEC : 0};
	memcpy(ret->remote_key, peer->public_key, sizeof(ret->remote_key));
}

static void end_start(struct bench *b, unsigned int which)
{
	struct end *e = &b->end[which];
	struct ike_config c = {.rng = e->rng,
		.key = e->key,
		.cookie_threshold = b->options & 16 ? 1 : 0,
		.half_open_max = 64,
		.datagram_max = DATAGRAM_MAX};

	FUZZ_ASSERT(ike_new(&c, &e->ike) == 0);
}

static void end_join(struct bench *b, unsigned int which)
{
	struct ike_conn_config c;

	conn_config(b, which, &c);
	FUZZ_ASSERT(ike_conn_add(b->end[which].ike, &c, b->now) == 0);
	b->end[which].there = true;
}

static void bench_open(struct bench *b, struct cur *c)
{
	uint8_t seed;

	b->options = cur_u8(c);
	seed = cur_u8(c);
	b->now = (wtime){1000 * W_SEC};
	b->honest = true;
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &b->end[i];

		e->rng = rng_seeded_init(&e->seeded, seed * 2 + i);
		FUZZ_ASSERT(ed25519_generate(&e->rng, &e->key) == 0);
		ed25519_public(e->key, e->public_key);
		snprintf(e->id, sizeof(e->id), "0: end %u", i);
		e->at = (struct endpoint){.ip = {.family = IP4, .b = {192, 0, 2, (uint8_t)(i + 1)}},
			.port = 13000};
		e->other = e->at;
		e->other.port = 40000;
		end_start(b, i);
	}
	for (unsigned int i = 0; i < 2; i++)
		end_join(b, i);
}

static void bench_close(struct bench *b)
{
	for (unsigned int i = 0; i < 2; i++) {
		ike_free(b->end[i].ike);
		ed25519_free(b->end[i].key);
	}
	for (size_t i = 0; i < b->waiting; i++)
		w_free(b->wire[i].data);
}

/* ---- What an engine says ---- */
static struct ike_child_info *end_child(struct end *e, uint32_t child)
{
	for (unsigned int i = 0; i < CHILDREN; i++)
		if (e->child[i].child == child)
			return &e->child[i];
	return NULL;
}

static void take_event(struct end *e, const struct ike_event *ev)
{
	struct ike_child_info *known = ev->child.child ? end_child(e, ev->child.child) : NULL;

	FUZZ_ASSERT(ev->conn == CONN);
	switch (ev->type) {
	case IKE_EVENT_CHILD_UP:
		FUZZ_ASSERT(ev->child.child && !known);
		known = end_child(e, 0);
		FUZZ_ASSERT(known);
		for (unsigned int i = 0; i < CHILDREN; i++)
			FUZZ_ASSERT(!e->child[i].child || e->child[i].spi_in != ev->child.spi_in);
		*known = ev->child;
		break;
	case IKE_EVENT_CHILD_OUTBOUND:
		FUZZ_ASSERT(known);
		e->outbound = ev->child.child;
		break;
	case IKE_EVENT_CHILD_DOWN:
		FUZZ_ASSERT(known);
		if (e->outbound == known->child)
			e->outbound = 0;
		*known = (struct ike_child_info){0};
		break;
	default:
		FUZZ_ASSERT(ev->type != IKE_EVENT_NONE && ev->type <= IKE_EVENT_REMOTE_ANSWERED);
		break;
	}
}

static void wire_add(struct bench *b, unsigned int to, struct view data)
{
	if (b->waiting == WIRE_MAX)
		return;
	b->wire[b->waiting] = (struct packet){.to = to, .n = data.n};
	b->wire[b->waiting].data = w_memdup(data.p, data.n);
	FUZZ_ASSERT(b->wire[b->waiting].data);
	b->waiting++;
}

static void collect(struct bench *b)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &b->end[i], *peer = &b->end[1 - i];
		struct ike_datagram d;
		struct ike_header h;
		struct ike_event ev;

		while (ike_event_next(e->ike, &ev)) {
			take_event(e, &ev);
			ike_event_wipe(&ev);
		}
		while (ike_output(e->ike, &d)) {
			FUZZ_ASSERT(ike_header_parse(d.data, &h) == IKE_PARSE_OK);
			FUZZ_ASSERT(h.length == d.data.n);
			FUZZ_ASSERT(d.data.n <= DATAGRAM_MAX - IKE_IP4_UDP_LEN - IKE_MARKER_LEN ||
				h.exchange == IKE_SA_INIT);
			if (endpoint_equal(&d.remote, &peer->at) ||
				endpoint_equal(&d.remote, &peer->other))
				wire_add(b, 1 - i, d.data);
		}
	}
}

/* What must hold between any two steps. */
static void check(struct bench *b)
{
	collect(b);
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &b->end[i];
		struct ike_conn_status s;
		struct ike_stats stats;

		ike_stats(e->ike, &stats);
		FUZZ_ASSERT(stats.half_open <= 64);
		FUZZ_ASSERT(stats.sas <= 64 + IKE_CONN_SAS_MAX);
		FUZZ_ASSERT(ike_deadline(e->ike).us > 0);
		if (ike_conn_status(e->ike, CONN, &s)) {
			FUZZ_ASSERT(!e->there && !e->outbound);
			continue;
		}
		FUZZ_ASSERT(s.sa_count <= IKE_CONN_SAS_MAX && s.child_count <= IKE_CHILDREN_MAX);
		FUZZ_ASSERT((s.state == IKE_STATE_UP) == s.has_sa);
		FUZZ_ASSERT(s.outbound_child == e->outbound);
		for (unsigned int k = 0; k < s.child_count && k < IKE_STATUS_CHILDREN; k++)
			FUZZ_ASSERT(end_child(e, s.children[k].child));
	}
}

/* ---- What bytes without a key may not change ---- */
static uint64_t mix(uint64_t sum, uint64_t v)
{
	return (sum ^ v) * UINT64_C(0x100000001b3) + (sum >> 29);
}

static uint64_t sa_sum(uint64_t sum, const struct ike_sa *sa)
{
	sum = mix(sum, sa->state);
	sum = mix(sum, sa->spi_i);
	sum = mix(sum, sa->spi_r);
	sum = mix(sum, sa->next_in);
	sum = mix(sum, sa->next_out);
	sum = mix(sum, sa->tries);
	sum = mix(sum, sa->remote.port);
	sum = mix(sum, (uint64_t)sa->heard.us);
	sum = mix(sum, (uint64_t)sa->rekey_at.us);
	return mix(sum, (uint64_t)sa->expire_at.us);
}

/* Every SA that is up and every child; with keyed, also those that have keys only. */
static uint64_t end_sum(const struct end *e, bool keyed)
{
	uint64_t sum = e->outbound;

	list_for_each (it, &e->ike->conns) {
		const struct ike_conn *conn = container_of(it, struct ike_conn, node);

		list_for_each (s, &conn->sas) {
			const struct ike_sa *sa = container_of(s, struct ike_sa, node);

			if (sa->state >= IKE_SA_UP || (keyed && sa->protect))
				sum = sa_sum(sum, sa);
		}
	}
	for (unsigned int i = 0; i < CHILDREN; i++)
		sum = mix(sum, e->child[i].child);
	return sum;
}

static void input(struct bench *b, unsigned int to, bool from_other, struct view data)
{
	const struct end *from = &b->end[1 - to];
	struct ike_datagram d = {.local = b->end[to].at,
		.remote = from_other ? from->other : from->at,
		.data = data};

	ike_input(b->end[to].ike, &d, b->now);
	collect(b);
}

static void input_hostile(struct bench *b, unsigned int to, struct view data)
{
	struct ike_header h;
	bool keyed = ike_header_parse(data, &h) != IKE_PARSE_OK || h.exchange != IKE_SA_INIT;
	uint64_t before = end_sum(&b->end[to], keyed);

	input(b, to, true, data);
	FUZZ_ASSERT(end_sum(&b->end[to], keyed) == before);
}

/* ---- The wire ---- */
static struct packet wire_take(struct bench *b, size_t i)
{
	struct packet p = b->wire[i];

	b->waiting--;
	memmove(&b->wire[i], &b->wire[i + 1], (b->waiting - i) * sizeof(p));
	return p;
}

static void deliver(struct bench *b, size_t i, bool from_other)
{
	struct packet p = wire_take(b, i);

	input(b, p.to, from_other, view_of(p.data, p.n));
	w_free(p.data);
}

static void damage(struct bench *b, size_t i, struct cur *c)
{
	struct packet p = wire_take(b, i);
	struct ike_header h;
	uint16_t at = cur_u16(c);
	uint8_t with = cur_u8(c);
	bool init = ike_header_parse(view_of(p.data, p.n), &h) == IKE_PARSE_OK &&
		h.exchange == IKE_SA_INIT;

	p.data[at % p.n] ^= with ? with : 1;
	/* a damaged IKE_SA_INIT may still be one: then the signatures will not fit */
	if (init)
		input(b, p.to, false, view_of(p.data, p.n));
	else
		input_hostile(b, p.to, view_of(p.data, p.n));
	w_free(p.data);
}

/* ---- With keys ---- */
/* Takes bytes out of a chain, changes some, and puts some in. Appended to ret. */
static void edit(struct view text, struct cur *c, struct buf *ret)
{
	struct cur t = cur_view(text);
	uint16_t at = cur_u16(c);
	uint8_t cut = cur_u8(c), put = cur_u8(c), flip = cur_u8(c);
	struct view kept = cur_take(&t, text.n ? at % text.n : 0);
	struct view added = cur_take(c, put < c->n ? put : c->n);

	buf_add(ret, kept.p, kept.n);
	buf_add(ret, added.p, added.n);
	cur_skip(&t, cut < t.n ? cut : t.n);
	buf_add(ret, t.p, t.n);
	if (flip && at < ret->n)
		ret->p[at] ^= flip;
}

static struct ike_sa *end_sa(struct end *e, const struct ike_header *h, bool receives)
{
	bool initiator = !!(h->flags & IKE_FLAG_INITIATOR) != receives;
	struct ike_sa *sa = ike_sa_find(e->ike, initiator ? h->spi_i : h->spi_r);

	return sa && sa->protect ? sa : NULL;
}

/* A message on its way is opened with the receiver's key, edited, and sealed by its sender. */
static void rewrite(struct bench *b, size_t i, struct cur *c)
{
	struct packet p = wire_take(b, i);
	struct buf text = {0}, edited = {0}, sealed = {0};
	struct ike_packet out = {0};
	struct ike_sa *from, *to;
	struct ike_msg m;
	uint8_t mid = cur_u8(c), first = cur_u8(c);

	if (ike_msg_parse(view_of(p.data, p.n), &m) == IKE_PARSE_OK && m.enc.type) {
		from = end_sa(&b->end[1 - p.to], &m.h, false);
		to = end_sa(&b->end[p.to], &m.h, true);
		if (from && to && ike_open_packet(to->protect, &m.enc, &text) == IKE_OPEN_OK) {
			edit(buf_view(&text), c, &edited);
			m.h.mid += mid < 8 ? mid : 0;
			out = (struct ike_packet){.h = &m.h,
				.first = first ? first : m.enc.first,
				.number = m.enc.number,
				.total = m.enc.total,
				.text = buf_view(&edited)};
			FUZZ_ASSERT(ike_seal_packet(from->protect, &b->end[1 - p.to].rng, &out,
					    &sealed) == 0);
			b->honest = false;
			input(b, p.to, false, buf_view(&sealed));
		}
	}
	buf_free(&text);
	buf_free(&edited);
	buf_free(&sealed);
	w_free(p.data);
}

static struct ike_sa *nth_sa(const struct end *e, unsigned int n)
{
	struct ike_sa *last = NULL;

	list_for_each (it, &e->ike->conns) {
		struct ike_conn *conn = container_of(it, struct ike_conn, node);

		list_for_each (s, &conn->sas) {
			struct ike_sa *sa = container_of(s, struct ike_sa, node);

			last = sa->protect ? sa : last;
			if (sa->protect && n-- == 0)
				return sa;
		}
	}
	return last;
}

/* A chain from the input as a message of one end's SA to the other end. */
static void forge(struct bench *b, unsigned int to, struct cur *c)
{
	static const uint8_t exchanges[] = {IKE_AUTH, IKE_CREATE_CHILD_SA, IKE_INFORMATIONAL,
		IKE_INTERMEDIATE, IKE_FOLLOWUP_KE, IKE_SA_INIT};
	struct end *e = &b->end[1 - to];
	uint8_t how = cur_u8(c), exchange = cur_u8(c), small = cur_u8(c);
	struct ike_inner inner = {.first = cur_u8(c)};
	uint16_t n = cur_u16(c);
	struct ike_sa *sa = nth_sa(e, how & 3);
	struct ike_sealed sealed;
	struct ike_header h;
	struct view message;
	size_t at = 0;

	inner.bytes = cur_take(c, n < c->n ? n : c->n);
	if (!sa)
		return;
	h = (struct ike_header){.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.version = IKE_VERSION,
		.exchange = exchanges[exchange % sizeof(exchanges)],
		.flags = (sa->initiator ? IKE_FLAG_INITIATOR : 0) |
			(how & 4 ? IKE_FLAG_RESPONSE : 0),
		.mid = (how & 4 ? sa->next_in : sa->next_out) + (how >> 3 & 7) - 3};
	if (ike_seal(sa->protect, &e->rng, &h, &inner, small ? 80 + 4 * (size_t)small : 0, &sealed))
		return;
	b->honest = false;
	while (ike_sealed_next(&sealed, &at, &message))
		input(b, to, false, message);
	ike_sealed_free(&sealed);
}

/* ---- Time ---- */
/* To the next deadline at or before `end`. False: there is none. */
static bool tick(struct bench *b, wtime end)
{
	wtime t = wtime_min(ike_deadline(b->end[0].ike), ike_deadline(b->end[1].ike));

	if (wtime_before(end, t))
		return false;
	if (wtime_before(b->now, t))
		b->now = t;
	for (unsigned int i = 0; i < 2; i++)
		if (wtime_due(ike_deadline(b->end[i].ike), b->now))
			ike_tick(b->end[i].ike, b->now);
	collect(b);
	return true;
}

static void pass(struct bench *b, int64_t us)
{
	wtime end = wtime_add(b->now, us), last = b->now;

	for (unsigned int same = 0; tick(b, end); last = b->now) {
		same = b->now.us == last.us ? same + 1 : 0;
		FUZZ_ASSERT(same < TICKS_MAX);
	}
	b->now = end;
}

/* Messages arrive in order, each after a while. */
static void run(struct bench *b)
{
	for (unsigned int n = 0; b->waiting && n < RUN_MAX; n++) {
		pass(b, DELAY_US);
		deliver(b, 0, false);
	}
}

/* ---- Commands ---- */
static void restart(struct bench *b, unsigned int which)
{
	struct end *e = &b->end[which];

	ike_free(e->ike);
	memset(e->child, 0, sizeof(e->child));
	e->outbound = 0;
	end_start(b, which);
	end_join(b, which);
}

static void conn_remove(struct bench *b, unsigned int which)
{
	struct end *e = &b->end[which];

	if (e->there)
		ike_conn_remove(e->ike, CONN, b->now);
	e->there = !e->there;
	if (e->there)
		end_join(b, which);
}

static void conn_update(struct bench *b, unsigned int which, uint8_t how)
{
	struct ike_conn_config c;

	conn_config(b, which, &c);
	c.post_quantum = how % 3;
	c.dpd_us = how & 4 ? W_SEC : 0;
	c.child_lifetime_us = how & 8 ? 20 * W_SEC : 0;
	(void)ike_conn_update(b->end[which].ike, &c, b->now);
}

static void command(struct bench *b, unsigned int which, uint8_t what)
{
	struct end *e = &b->end[which];
	struct endpoint remote = b->end[1 - which].at;

	if (what & 0x80)
		remote = b->end[1 - which].other;
	if (what & 0x40)
		remote.ip.b[3] = 99; /* where nobody is */
	switch ((what & 0x3f) % CMD_COUNT) {
	case CMD_REKEY_IKE:
		(void)ike_conn_rekey_ike(e->ike, CONN, b->now);
		break;
	case CMD_REKEY_CHILD:
		(void)ike_conn_rekey_child(e->ike, CONN, b->now);
		break;
	case CMD_PROBE:
		(void)ike_conn_probe(e->ike, CONN, b->now);
		break;
	case CMD_UP:
		(void)ike_conn_up(e->ike, CONN, b->now);
		break;
	case CMD_DOWN:
		(void)ike_conn_down(e->ike, CONN, b->now);
		break;
	case CMD_TRY_REMOTE:
		(void)ike_conn_try_remote(e->ike, CONN, &e->at, &remote, b->now);
		break;
	case CMD_JUDGED_DOWN:
		(void)ike_conn_judged_down(e->ike, CONN, b->now);
		break;
	case CMD_HEARD:
		ike_conn_heard(e->ike, CONN, b->now);
		break;
	case CMD_SOFT_LIMIT:
		ike_child_soft_limit(e->ike, e->outbound, b->now);
		break;
	case CMD_SET_REMOTE:
		(void)ike_conn_set_remote(e->ike, CONN, &remote, b->now);
		break;
	case CMD_UPDATE:
		conn_update(b, which, what >> 4);
		break;
	case CMD_REMOVE:
		conn_remove(b, which);
		break;
	case CMD_RESTART:
		restart(b, which);
		break;
	}
}

static void step(struct bench *b, struct cur *c)
{
	uint8_t op = cur_u8(c), arg = cur_u8(c);
	unsigned int to = op >> 7;
	enum step what = (op & 15) % STEP_COUNT;
	size_t i = b->waiting ? arg % b->waiting : 0;

	if (what <= STEP_REWRITE && !b->waiting)
		what = STEP_RUN;
	switch (what) {
	case STEP_DELIVER:
		deliver(b, i, op & 0x40);
		break;
	case STEP_DROP:
		w_free(wire_take(b, i).data);
		break;
	case STEP_TWICE:
		wire_add(b, b->wire[i].to, view_of(b->wire[i].data, b->wire[i].n));
		break;
	case STEP_DAMAGE:
		damage(b, i, c);
		break;
	case STEP_REWRITE:
		rewrite(b, i, c);
		break;
	case STEP_RAW:
		input_hostile(b, to, cur_take(c, arg < c->n ? arg : c->n));
		break;
	case STEP_FORGE:
		forge(b, to, c);
		break;
	case STEP_TIME: /* a millisecond to an hour */
		pass(b, (INT64_C(1) + (arg & 15)) * W_MS << ((arg >> 4) * 5 / 4));
		break;
	case STEP_COMMAND:
		command(b, to, arg);
		break;
	default:
		run(b);
		break;
	}
	check(b);
}

/* ---- The end of it ---- */
static bool can_send(struct bench *b, unsigned int from)
{
	const struct ike_child_info *out;

	if (!b->end[from].outbound)
		return false;
	out = end_child(&b->end[from], b->end[from].outbound);
	for (unsigned int i = 0; i < CHILDREN; i++) {
		const struct ike_child_info *in = &b->end[1 - from].child[i];

		if (in->child && in->spi_in == out->spi_out)
			return true;
	}
	return false;
}

/* Whatever happened between honest ends: when it is over, they can talk again. */
static void calm(struct bench *b)
{
	wtime end = wtime_add(b->now, CALM_S * W_SEC);

	for (unsigned int i = 0; i < 2; i++) {
		struct ike_conn_config c;

		if (!b->end[i].there)
			end_join(b, i);
		conn_config(b, i, &c);
		FUZZ_ASSERT(ike_conn_update(b->end[i].ike, &c, b->now) == 0);
		FUZZ_ASSERT(ike_conn_set_remote(b->end[i].ike, CONN, &c.remote, b->now) == 0);
		FUZZ_ASSERT(ike_conn_up(b->end[i].ike, CONN, b->now) == 0);
	}
	collect(b);
	while (!can_send(b, 0) || !can_send(b, 1)) {
		if (b->waiting)
			run(b);
		else
			FUZZ_ASSERT(tick(b, end));
		check(b);
		FUZZ_ASSERT(wtime_before(b->now, end));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c = cur_of(data, size);
	struct bench *b = w_calloc(1, sizeof(*b));
	wtime end;

	FUZZ_ASSERT(b);
	bench_open(b, &c);
	end = wtime_add(b->now, TIME_MAX_S * W_SEC);
	if (!(b->options & 0x80)) /* else from the first message on */
		run(b);
	check(b);
	for (unsigned int i = 0; i < STEPS_MAX && c.n && !c.bad && wtime_before(b->now, end); i++)
		step(b, &c);
	if (b->honest)
		calm(b);
	bench_close(b);
	w_free(b);
	return 0;
}
