/* What the node tells about itself: status, links, routes. Keys as in doc/schema.json; what is not
 * known is null. */
#include "node/node_priv.h"

#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"

static double seconds(wtime later, wtime earlier)
{
	return (double)wtime_diff(later, earlier) / (double)W_SEC;
}

static void key_exchanges(struct json *j, const enum kex_id *kex)
{
	json_array(j, "key_exchanges");
	for (size_t i = 0; i < IKE_KEX_MAX && kex[i] != KEX_NONE; i++)
		json_string(j, NULL, kex_info(kex[i])->name);
	json_array_end(j);
}

static const char *suite_name(enum aead_id id)
{
	const struct aead_info *i = aead_info(id);

	return i ? i->name : NULL;
}

static void ike_sa(struct json *j, const struct ike_conn_status *s, wtime now)
{
	char suite[96];
	const struct prf_info *p = prf_info(s->sa.prf);

	if (!s->has_sa) {
		json_null(j, "ike");
		return;
	}
	(void)snprintf(suite, sizeof(suite), "%s/%s", suite_name(s->sa.aead), p ? p->name : "?");
	json_object(j, "ike");
	json_string(j, "suite", suite);
	key_exchanges(j, s->sa.kex);
	json_hex(j, "spi_i", s->sa.spi_i, 16);
	json_hex(j, "spi_r", s->sa.spi_r, 16);
	json_real(j, "rekey_in_s", seconds(s->sa.rekey_at, now));
	json_object_end(j);
}

static void children(struct json *j, const struct ike_conn_status *s, wtime now)
{
	json_array(j, "children");
	for (unsigned int i = 0; i < s->child_count && i < IKE_STATUS_CHILDREN; i++) {
		const struct ike_child_info *c = &s->children[i];

		json_object(j, NULL);
		json_string(j, "suite", suite_name(c->aead));
		key_exchanges(j, c->kex);
		json_hex(j, "spi_in", c->spi_in, 8);
		json_hex(j, "spi_out", c->spi_out, 8);
		json_bool(j, "esn", c->esn);
		json_real(j, "rekey_in_s", seconds(c->rekey_at, now));
		json_object_end(j);
	}
	json_array_end(j);
}

static void address_port(struct json *j, const char *key, const struct endpoint *e,
	const char *serial)
{
	char text[ADDR_TEXT];

	json_object(j, key);
	if (serial)
		json_string(j, "serial", serial);
	json_string(j, "address",
		e->ip.family == IP_NONE || ipaddr_is_unspecified(&e->ip)
			? NULL
			: ipaddr_format(&e->ip, text));
	json_uint(j, "port", e->port);
	json_object_end(j);
}

static void traffic(struct json *j, const char *key, const uint64_t *packets, const uint64_t *bytes)
{
	json_object(j, key);
	json_uint(j, "packets", __atomic_load_n(packets, __ATOMIC_RELAXED));
	json_uint(j, "bytes", __atomic_load_n(bytes, __ATOMIC_RELAXED));
	json_object_end(j);
}

void node_peer_object(struct json *j, const struct node_link *l, bool serial)
{
	json_object(j, "peer");
	json_string(j, "organization", l->organization);
	json_string(j, "name", l->name);
	if (serial)
		json_string(j, "serial", l->remote_serial);
	json_object_end(j);
}

static const char *state_name(const struct node_link *l, const struct ike_conn_status *s)
{
	if (l->admin_down || l->excluded)
		return "down";
	if (l->outbound && s->state == IKE_STATE_UP)
		return l->dead ? "down" : "up";
	return l->address || s->state != IKE_STATE_DOWN ? "connecting" : "down";
}

/* Why a link is not up; for one that is, what ails it, or NULL. */
static const char *reason_of(const struct node_link *l, const struct ike_conn_status *s, bool up)
{
	if (up)
		return l->reason[0] ? l->reason : NULL;
	if (l->admin_down)
		return "taken down by command";
	if (l->excluded)
		return l->reason;
	if (l->outbound && l->dead)
		return "the peer does not answer: nothing is heard over the link";
	if (s->reason[0])
		return s->reason;
	if (l->reason[0])
		return l->reason;
	return l->address ? "no answer yet" : "the registry has no address: waiting for the peer";
}

static void link_object(struct node *n, const struct node_link *l, wtime now, struct json *j)
{
	struct ike_conn_status s = {0};
	bool up;

	(void)ike_conn_status(n->ike, l->conn, &s);
	up = strcmp(state_name(l, &s), "up") == 0;
	json_object(j, NULL);
	json_string(j, "id", l->text);
	node_peer_object(j, l, true);
	address_port(j, "local", &l->local, l->local_serial);
	address_port(j, "remote", &l->remote, NULL);
	json_string(j, "state", state_name(l, &s));
	json_string(j, "reason", reason_of(l, &s, up));
	json_string(j, "protocol", "esp");
	if (up)
		json_real(j, "since_s", seconds(now, l->up_since));
	else
		json_null(j, "since_s");
	json_bool(j, "behind_nat", s.behind_nat);
	if (up)
		json_uint(j, "mtu", node_link_mtu(n, l));
	else
		json_null(j, "mtu");
	node_link_metric(n, l, j);
	ike_sa(j, &s, now);
	children(j, &s, now);
	traffic(j, "tx", &l->state->tx_packets, &l->state->tx_bytes);
	traffic(j, "rx", &l->state->rx_packets, &l->state->rx_bytes);
	json_uint(j, "segmented", __atomic_load_n(&l->state->segmented, __ATOMIC_RELAXED));
	json_uint(j, "lost", node_lost(n, l));
	json_object_end(j);
}

void node_links_reply(struct node *n, wtime now, struct json *j)
{
	json_array(j, "links");
	list_for_each (it, &n->links)
		link_object(n, container_of(it, struct node_link, list), now, j);
	json_array_end(j);
}

static void counts(struct node *n, struct json *j)
{
	uint64_t up = 0, all = 0;
	struct prefix locator;

	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);
		struct ike_conn_status s = {0};

		(void)ike_conn_status(n->ike, l->conn, &s);
		all++;
		up += strcmp(state_name(l, &s), "up") == 0;
	}
	json_object(j, "counts");
	json_uint(j, "links_up", up);
	json_uint(j, "links", all);
	json_uint(j, "routes",
		n->config->tun.address_count + n->config->announce_count +
			n->config->static_route_count + node_locator(n, &locator) + n->host.routes +
			n->rib.count);
	json_object_end(j);
}

/* What is done about a standing queue of the TUN (plane.aqm). */
static void aqm(const struct node *n, const struct node_outside *o, struct json *j)
{
	uint64_t marked = 0, dropped = 0;

	for (size_t i = 0; i < o->n_counters; i++) {
		marked += o->counters[i].aqm_marked;
		dropped += o->counters[i].drops[DROP_AQM];
	}
	json_object(j, "aqm");
	json_string(j, "state", n->config->plane.aqm == CONF_OFF ? "off" : "on");
	json_uint(j, "marked", marked);
	json_uint(j, "dropped", dropped);
	json_object_end(j);
}

/* Each switch of plane.offload: what is done, and whose word that is. */
static void offloads(const struct node_outside *o, struct json *j)
{
	json_object(j, "offload");
	for (unsigned int i = 0; i < CONF_OFFLOADS; i++) {
		unsigned int bit = conf_offload_bit((enum conf_offload)i);
		bool on = o->offload_on & bit, used = o->offload_used & bit;

		json_object(j, conf_offload_name((enum conf_offload)i));
		json_string(j, "state", on && used ? "on" : on ? "refused" : "off");
		json_bool(j, "by_command", o->offload_command & bit);
		json_object_end(j);
	}
	json_object_end(j);
}

static void warnings(const struct node *n, const struct node_outside *o, wtime now, struct json *j)
{
	char text[96];

	json_array(j, "warnings");
	for (size_t i = 0; o->warnings && o->warnings[i]; i++)
		json_string(j, NULL, o->warnings[i]);
	node_host_warnings(n, now, j);
	if (n->out_of_memory) {
		(void)snprintf(text, sizeof(text), "%llu events were lost for want of memory",
			(unsigned long long)n->out_of_memory);
		json_string(j, NULL, text);
	}
	json_array_end(j);
}

void node_status_reply(struct node *n, const struct node_outside *o, wtime now, struct json *j)
{
	static const char *const pq[] = {"prefer", "require", "off"};
	char text[PREFIX_TEXT], addr[ADDR_TEXT], id[24];
	const uint8_t *r = n->router_id;

	(void)snprintf(id, sizeof(id), "%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", r[0], r[1], r[2],
		r[3], r[4], r[5], r[6], r[7]);
	json_string(j, "version", n->version);
	json_object(j, "node");
	json_string(j, "organization", n->config->node.organization);
	json_string(j, "name", n->config->node.name);
	json_real(j, "uptime_s", seconds(now, n->started));
	json_string(j, "router_id", id);
	json_object_end(j);
	json_object(j, "tun");
	json_string(j, "name", n->config->tun.name);
	json_uint(j, "mtu", n->config->tun.mtu);
	json_array(j, "addresses");
	for (size_t i = 0; i < n->config->tun.address_count; i++) {
		(void)snprintf(text, sizeof(text), "%s/%u",
			ipaddr_format(&n->config->tun.address[i].ip, addr),
			(unsigned int)n->config->tun.address[i].len);
		json_string(j, NULL, text);
	}
	json_array_end(j);
	json_object_end(j);
	node_links_reply(n, now, j);
	counts(n, j);
	json_string(j, "post_quantum", pq[n->config->ike.post_quantum]);
	json_string(j, "crypto", o->crypto);
	json_uint(j, "threads", n->planes);
	json_uint(j, "helpers", n->helpers);
	aqm(n, o, j);
	offloads(o, j);
	warnings(n, o, now, j);
}
