/* The UDP sockets that the node wants. Those that go, or must be opened anew, leave the plane
 * thread's list first; when that thread has let go of the old list they are closed, and what takes
 * their place is opened. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "engine/engine_priv.h"

static bool text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool socket_equal(const struct node_socket *a, const struct node_socket *b)
{
	return a->wanted == b->wanted && a->family == b->family && a->port == b->port &&
		a->fwmark == b->fwmark && ipaddr_equal(&a->address, &b->address) &&
		text_equal(a->interface, b->interface);
}

static void socket_forget(struct engine_socket *s)
{
	char *interface = (char *)(uintptr_t)s->as.interface;

	w_free(interface);
	*s = (struct engine_socket){0};
}

static void socket_close(struct engine *e, struct engine_socket *s)
{
	for (uint32_t k = 0; k < ENGINE_PLANES - 1; k++)
		if (s->more[k])
			e->config.net->udp_close(s->more[k]);
	if (s->udp)
		e->config.net->udp_close(s->udp);
	socket_forget(s);
}

static int socket_open(struct engine *e, size_t i, const struct node_socket *want,
	struct buf *error)
{
	struct os_udp_config c = {.index = (uint16_t)i,
		.family = want->family,
		.address = want->address,
		.port = want->port,
		.interface = want->interface,
		.netns = e->underlay_netns,
		.mark = want->fwmark,
		.gso = e->offload & conf_offload_bit(CONF_UDP_GSO),
		.gro = e->offload & conf_offload_bit(CONF_UDP_GRO),
		.siblings = e->planes};
	struct engine_socket *s = &e->socket[i];
	int r = e->config.net->udp_open(&c, &s->udp, error);

	c.further = true;
	/* A port that the kernel chose is the others', too. */
	if (r == 0)
		c.port = os_udp_facts(s->udp).port;
	for (uint32_t k = 1; r == 0 && k < e->planes; k++)
		r = e->config.net->udp_open(&c, &s->more[k - 1], error);
	if (r == 0) {
		s->as = *want;
		s->as.interface = want->interface ? w_strdup(want->interface) : NULL;
		r = want->interface && !s->as.interface ? -ENOMEM : 0;
	}
	if (r < 0)
		socket_close(e, s);
	return r;
}

static void list_free(struct engine_sockets *list)
{
	os_interfaces_free(&list->excluded);
	w_free(list);
}

/* Tells the plane thread what is open: all but those marked to go. */
static int sockets_publish(struct engine *e, const bool *go)
{
	struct engine_sockets *list;
	struct engine_down m = {.type = ENGINE_DOWN_SOCKETS};
	int r;

	list = w_calloc(1, sizeof(*list) + e->socket_count * e->planes * sizeof(list->udp[0]));
	if (!list)
		return -ENOMEM;
	list->count = e->socket_count;
	list->planes = e->planes;
	r = os_interfaces_copy(&e->excluded, &list->excluded);
	if (r < 0) {
		w_free(list);
		return r;
	}
	for (size_t i = 0; i < e->socket_count; i++)
		for (uint32_t k = 0; k < e->planes && !(go && go[i]); k++)
			list->udp[i * e->planes + k] = engine_udp(e, i, k);
	m.sockets = list;
	r = engine_down(e, &m);
	if (r < 0)
		list_free(list);
	else
		e->published = list;
	e->excluded_dirty &= r < 0;
	return r;
}

/* Room for the node's number of sockets. */
static int sockets_grow(struct engine *e, size_t n)
{
	struct engine_socket *grown;

	if (n <= e->socket_count)
		return 0;
	grown = w_realloc(e->socket, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + e->socket_count, 0, (n - e->socket_count) * sizeof(*grown));
	e->socket = grown;
	e->socket_count = n;
	return 0;
}

/* Marks the open sockets that are not wanted as they are. */
static size_t sockets_to_go(struct engine *e, const struct node_socket *want, size_t n, bool *go)
{
	size_t count = 0;

	for (size_t i = 0; i < e->socket_count; i++) {
		go[i] = e->socket[i].udp && (i >= n || !socket_equal(&e->socket[i].as, &want[i]));
		count += go[i];
	}
	return count;
}

static size_t sockets_open(struct engine *e, const struct node_socket *want, size_t n)
{
	size_t opened = 0;

	for (size_t i = 0; i < n && e->failed == 0; i++) {
		struct buf error = {0};
		int r;

		if (!want[i].wanted || e->socket[i].udp)
			continue;
		r = socket_open(e, i, &want[i], &error);
		opened += r == 0;
		if (r < 0 && e->starting) {
			buf_add(&e->error, error.p, error.n);
			buf_add_str(&e->error, "\n");
			e->failed = r;
		} else if (r < 0) {
			engine_log_lines(e, OS_ERROR, &error);
		}
		buf_free(&error);
	}
	return opened;
}

void engine_sockets_update(struct engine *e)
{
	size_t n;
	const struct node_socket *want = node_sockets(e->node, &n);
	bool *go;
	int r = sockets_grow(e, n);

	if (e->sockets_wait)
		return; /* it is called again when the list is back */
	go = r == 0 ? w_calloc(e->socket_count + 1, sizeof(*go)) : NULL;
	if (!go) {
		os_log_line(&e->config.log, OS_ERROR, "out of memory for UDP sockets");
		return;
	}
	if (sockets_to_go(e, want, n, go) > 0) {
		r = sockets_publish(e, go);
		e->sockets_wait = r == 0;
	} else if (sockets_open(e, want, n) > 0 || e->excluded_dirty) {
		r = sockets_publish(e, NULL);
	}
	if (r < 0)
		os_log_line(&e->config.log, OS_ERROR, "out of memory for UDP sockets");
	w_free(go);
}

static bool list_has(const struct engine_sockets *s, const struct os_udp *u)
{
	for (size_t i = 0; s && i < s->count; i++)
		if (engine_socket_of(s, i, 0) == u)
			return true;
	return false;
}

void engine_sockets_gone(struct engine *e, const struct engine_sockets *gone)
{
	for (size_t i = 0; i < e->socket_count; i++) {
		struct engine_socket *s = &e->socket[i];

		if (!s->udp || list_has(e->published, s->udp) || !list_has(gone, s->udp))
			continue;
		socket_close(e, s);
	}
	if (gone == e->published)
		e->published = NULL;
	list_free((struct engine_sockets *)(uintptr_t)gone);
	if (!e->sockets_wait)
		return;
	e->sockets_wait = false;
	if (!e->stopping)
		engine_sockets_update(e);
}

void engine_sockets_close(struct engine *e)
{
	for (size_t i = 0; i < e->socket_count; i++) {
		socket_close(e, &e->socket[i]);
	}
	w_free(e->socket);
	e->socket = NULL;
	e->socket_count = 0;
}

void engine_send(struct engine *e, const struct node_action *a)
{
	struct udp_tx tx = {.data = a->udp.data.p,
		.len = (uint32_t)a->udp.data.n,
		.segments = 1,
		.socket = a->udp.socket,
		.remote = a->udp.remote,
		.local = a->udp.local};
	struct os_udp *u = tx.socket < e->socket_count ? e->socket[tx.socket].udp : NULL;
	struct os_udp_result r = {0};

	if (u)
		e->config.net->udp_send(u, &tx, 1, &r);
	else
		r.failed = 1;
	/* IKE sends again by itself. */
	e->own.drops[DROP_TX_ERROR] += r.failed;
	e->own.drops[DROP_TX_BACKPRESSURE] += r.full;
}
