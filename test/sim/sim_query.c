/* Questions to the nodes of a simulation, by the same commands that people use. */
#include "sim.h"
#include "sim_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ctl/request.h"
#include "ctl/value.h"

static bool reply_is_there(struct sim *s)
{
	return s->reply_id == 0;
}

void sim_command_start(struct sim *s, unsigned int i, const char *command, const char *argument)
{
	struct plane_counters counters;
	struct node_outside o = {.counters = &counters, .n_counters = 1, .crypto = "test"};
	struct buf request = {0};

	sim_must(s->node[i].node != NULL, "a command to a node that does not run");
	plane_counters(s->node[i].plane, &counters);
	if (argument)
		buf_printf(&request, "{\"command\": \"%s\", \"argument\": \"%s\"}", command,
			argument);
	else
		buf_printf(&request, "{\"command\": \"%s\"}", command);
	buf_free(&s->reply);
	s->reply_id = node_command(s->node[i].node, buf_view(&request), &o, s->now, &s->reply);
	buf_free(&request);
	sim_settle(s, i);
}

const char *sim_command_end(struct sim *s)
{
	sim_must(sim_run_until(s, NODE_REPLY_US, reply_is_there), "a reply in time");
	buf_add(&s->reply, "", 1);
	return (const char *)s->reply.p;
}

const char *sim_command(struct sim *s, unsigned int i, const char *command, const char *argument)
{
	sim_command_start(s, i, command, argument);
	return sim_command_end(s);
}

static struct value_doc *ask(struct sim *s, unsigned int i, const char *command)
{
	const char *text = sim_command(s, i, command, NULL);
	struct value_doc *d;

	sim_must(value_parse(view_of(text, strlen(text)), &d) == 0, "a reply that is no JSON");
	return d;
}

static bool is_up(const struct value *link)
{
	const char *state = value_string(value_get(link, "state"));

	return state && strcmp(state, "up") == 0;
}

unsigned int sim_links_up(struct sim *s, unsigned int i, bool exact)
{
	struct value_doc *d = ask(s, i, "links");
	const struct value *links = value_get(value_root(d), "links");
	unsigned int n = 0;

	for (size_t k = 0; k < value_count(links); k++) {
		const struct value *l = value_at(links, k);

		n += is_up(l) && (!exact || value_count(value_get(l, "children")) == 1);
	}
	value_free(d);
	return n;
}

bool sim_mesh_up(struct sim *s)
{
	unsigned int running = 0;

	for (unsigned int i = 0; i < s->count; i++)
		running += s->node[i].node != NULL;
	for (unsigned int i = 0; i < s->count; i++)
		if (s->node[i].node && sim_links_up(s, i, false) < running - 1)
			return false;
	return true;
}

static const struct value *link_to(const struct value *root, unsigned int peer)
{
	const struct value *links = value_get(root, "links");
	char name[16];

	(void)snprintf(name, sizeof(name), "n%u", peer);
	for (size_t k = 0; k < value_count(links); k++) {
		const char *s = value_string(
			value_get(value_get(value_at(links, k), "peer"), "name"));

		if (s && strcmp(s, name) == 0)
			return value_at(links, k);
	}
	return NULL;
}

static bool same_text(const struct value *a, const char *ka, const struct value *b, const char *kb)
{
	const char *x = value_string(value_get(a, ka)), *y = value_string(value_get(b, kb));

	return x && y && strcmp(x, y) == 0;
}

static const char *text_of(const struct value *v, const char *key)
{
	const char *s = value_string(value_get(v, key));

	return s ? s : "-";
}

/* Both ends' views of one link agree: one IKE SA, one child pair, mirrored. */
static bool ends_agree(const struct value *a, const struct value *b)
{
	const struct value *ca = value_at(value_get(a, "children"), 0);
	const struct value *cb = value_at(value_get(b, "children"), 0);
	const struct value *ia = value_get(a, "ike"), *ib = value_get(b, "ike");

	return is_up(a) && is_up(b) && value_count(value_get(a, "children")) == 1 &&
		value_count(value_get(b, "children")) == 1 && same_text(ia, "spi_i", ib, "spi_i") &&
		same_text(ia, "spi_r", ib, "spi_r") && same_text(ca, "spi_in", cb, "spi_out") &&
		same_text(ca, "spi_out", cb, "spi_in");
}

bool sim_mesh_exact(struct sim *s)
{
	return sim_pairs_exact(s, NULL);
}

static void tell_end(const struct value *l, unsigned int at, unsigned int peer)
{
	const struct value *ike = value_get(l, "ike"), *children = value_get(l, "children");

	fprintf(stderr, "node %u to %u: %s, IKE SA %s %s, children", at, peer, text_of(l, "state"),
		text_of(ike, "spi_i"), text_of(ike, "spi_r"));
	for (size_t n = 0; n < value_count(children); n++)
		fprintf(stderr, " %s/%s", text_of(value_at(children, n), "spi_in"),
			text_of(value_at(children, n), "spi_out"));
	fputc('\n', stderr);
}

static void tell_pair(struct value_doc *const *doc, unsigned int a, unsigned int b)
{
	tell_end(link_to(value_root(doc[a]), b), a, b);
	tell_end(link_to(value_root(doc[b]), a), b, a);
}

/* Whether all pairs are exact; else says which ends of which link are not, when it is to tell. */
static bool pairs_exact(struct sim *s, const bool *adjacent, bool tell)
{
	struct value_doc **doc = calloc(s->count, sizeof(struct value_doc *));
	bool ok = true;

	sim_must(doc != NULL, "memory");
	for (unsigned int i = 0; i < s->count; i++)
		doc[i] = s->node[i].node ? ask(s, i, "links") : NULL;
	for (unsigned int i = 0; ok && i < s->count; i++)
		for (unsigned int k = i + 1; ok && k < s->count; k++) {
			if (doc[i] && doc[k] && (!adjacent || adjacent[i * s->count + k]))
				ok = ends_agree(link_to(value_root(doc[i]), k),
					link_to(value_root(doc[k]), i));
			if (!ok && tell)
				tell_pair(doc, i, k);
		}
	for (unsigned int i = 0; i < s->count; i++)
		value_free(doc[i]);
	free(doc);
	return ok;
}

bool sim_pairs_exact(struct sim *s, const bool *adjacent)
{
	return pairs_exact(s, adjacent, false);
}

void sim_pairs_tell(struct sim *s, const bool *adjacent)
{
	(void)pairs_exact(s, adjacent, true);
}

uint64_t sim_drops(struct sim *s, unsigned int i, const char *reason)
{
	struct value_doc *d = ask(s, i, "drops");
	double n = value_number(value_get(value_get(value_root(d), "drops"), reason), -1);

	sim_must(n >= 0, "a drop reason that does not exist");
	value_free(d);
	return (uint64_t)n;
}

static int next_hop_in(const struct value *root, unsigned int to)
{
	const struct value *routes = value_get(root, "routes");
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "10.66.%u.%u/32", to >> 8, to & 255);
	for (size_t k = 0; k < value_count(routes); k++) {
		const struct value *r = value_at(routes, k);
		const char *p = value_string(value_get(r, "prefix"));
		const char *peer = value_string(
			value_get(value_get(value_get(r, "via"), "peer"), "name"));

		if (p && strcmp(p, prefix) == 0 && value_bool(value_get(r, "selected")) && peer)
			return atoi(peer + 1);
	}
	return -1;
}

int sim_next_hop(struct sim *s, unsigned int i, unsigned int to)
{
	struct value_doc *d = ask(s, i, "routes");
	int hop = next_hop_in(value_root(d), to);

	value_free(d);
	return hop;
}

bool sim_all_routed(struct sim *s)
{
	for (unsigned int i = 0; i < s->count; i++) {
		struct value_doc *d = s->node[i].node ? ask(s, i, "routes") : NULL;
		bool ok = true;

		for (unsigned int k = 0; d && ok && k < s->count; k++)
			ok = k == i || !s->node[k].node || next_hop_in(value_root(d), k) >= 0;
		value_free(d);
		if (!ok)
			return false;
	}
	return true;
}

uint64_t sim_transit(const struct sim *s, unsigned int i)
{
	struct plane_counters c;

	if (!s->node[i].plane)
		return 0;
	plane_counters(s->node[i].plane, &c);
	return c.transit_packets;
}
