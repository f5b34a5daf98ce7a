/* Netlink: the socket, requests, and the order of things. */
#include <errno.h>
#include <netlink/attr.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/mem.h"
#include "os/file.h"
#include "os/netlink_priv.h"
#include "os/netns.h"

enum { PATH_BYTES = 128, TEXT = 256, ERRORS_MAX = 2048, QUEUE = 1 << 20 };

int netlink_failed(struct buf *errors, int r, const char *fmt, ...)
{
	char text[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* When every one of thousands fails, the first ones say it. */
	if (errors->n < ERRORS_MAX)
		buf_printf(errors, "%s: %s%s\n", text, strerror(-r),
			r == -EPERM ? "; CAP_NET_ADMIN is needed" : "");
	return r;
}

bool netlink_set_has(const struct netlink_set *s, uint32_t v)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == v)
			return true;
	return false;
}

int netlink_set_add(struct netlink_set *s, uint32_t v)
{
	uint32_t *grown;

	if (netlink_set_has(s, v))
		return 0;
	grown = w_realloc(s->v, (s->n + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[s->n++] = v;
	s->v = grown;
	return 0;
}

bool netlink_table_is_ours(const struct os_netlink *n, uint32_t table)
{
	return netlink_set_has(&n->tables, table) ||
		(table >= n->range && table - n->range < n->ranged);
}

struct nl_msg *netlink_message(int type, int flags, const void *header, size_t n)
{
	struct nl_msg *m = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);

	if (m && nlmsg_append(m, (void *)(uintptr_t)header, n, NLMSG_ALIGNTO) < 0) {
		nlmsg_free(m);
		return NULL;
	}
	return m;
}

int netlink_put_ip(struct nl_msg *m, int attribute, const struct ipaddr *a)
{
	return nla_put(m, attribute, (int)ipaddr_bits(a) / 8, a->b) < 0 ? -ENOMEM : 0;
}

bool netlink_is(const struct nlmsghdr *h, int type, size_t header)
{
	return h->nlmsg_type == type && nlmsg_datalen(h) >= (int)header;
}

uint32_t netlink_get_u32(const struct nlattr *a, uint32_t otherwise)
{
	return a && nla_len(a) == sizeof(uint32_t) ? nla_get_u32(a) : otherwise;
}

uint8_t netlink_get_u8(const struct nlattr *a, uint8_t otherwise)
{
	return a && nla_len(a) == sizeof(uint8_t) ? nla_get_u8(a) : otherwise;
}

struct ipaddr netlink_get_ip(const struct nlattr *a, int family)
{
	if (a && family == AF_INET && nla_len(a) == 4)
		return ipaddr_from(IP4, nla_data(a));
	if (a && family == AF_INET6 && nla_len(a) == 16)
		return ipaddr_from(IP6, nla_data(a));
	return (struct ipaddr){0};
}

struct request {
	netlink_each *each;
	void *ctx;
	int error;
	bool done;
};

static int request_valid(struct nl_msg *m, void *arg)
{
	struct request *q = arg;
	int r = q->each ? q->each(q->ctx, nlmsg_hdr(m)) : 0;

	if (r < 0 && q->error == 0)
		q->error = r;
	return NL_OK;
}

static int request_finished(struct nl_msg *m, void *arg)
{
	struct request *q = arg;

	(void)m;
	q->done = true;
	return NL_STOP;
}

static int request_error(struct sockaddr_nl *who, struct nlmsgerr *e, void *arg)
{
	struct request *q = arg;

	(void)who;
	q->error = e->error;
	q->done = true;
	return NL_STOP;
}

int netlink_request(struct os_netlink *n, struct nl_msg *m, netlink_each *each, void *ctx)
{
	struct request q = {.each = each, .ctx = ctx};
	struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
	int r = m && cb ? 0 : -ENOMEM;

	if (r == 0) {
		nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, request_valid, &q);
		nl_cb_set(cb, NL_CB_FINISH, NL_CB_CUSTOM, request_finished, &q);
		nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, request_finished, &q);
		nl_cb_err(cb, NL_CB_CUSTOM, request_error, &q);
		r = nl_send_auto(n->sock, m) < 0 ? -EIO : 0;
	}
	while (r == 0 && !q.done) {
		int e = nl_recvmsgs(n->sock, cb);

		if (e < 0 && !q.done)
			r = e == -NLE_NOMEM ? -ENOBUFS : -EIO;
	}
	nl_cb_put(cb);
	nlmsg_free(m);
	return r < 0 ? r : q.error;
}

static int netlink_connect(void *ctx)
{
	struct os_netlink *n = ctx;
	int one = 1;

	n->sock = nl_socket_alloc();
	if (!n->sock)
		return -ENOMEM;
	errno = 0;
	if (nl_connect(n->sock, NETLINK_ROUTE) < 0) /* its own codes have no word for most */
		return errno ? -errno : -EPROTONOSUPPORT;
	(void)nl_socket_set_buffer_size(n->sock, QUEUE, QUEUE);
	(void)nl_socket_set_msg_buf_size(n->sock, 1 << 16);
	/* Kernels before 4.20 dump everything; what is not ours is left out here anyway. */
	(void)setsockopt(nl_socket_get_fd(n->sock), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one,
		sizeof(one));
	return 0;
}

int os_netlink_open(const char *netns, struct os_netlink **ret, struct buf *error)
{
	struct os_netlink *n = w_calloc(1, sizeof(*n));
	int r = n ? 0 : -ENOMEM;

	if (r == 0 && netns) {
		n->netns = w_strdup(netns);
		r = n->netns ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = os_netns_run(netns, netlink_connect, n, error);
	if (r < 0) {
		if (error->n == 0)
			buf_printf(error, "netlink: %s", strerror(-r));
		os_netlink_close(n);
		return r;
	}
	*ret = n;
	return 0;
}

void os_netlink_close(struct os_netlink *n)
{
	if (!n)
		return;
	if (n->sock)
		nl_socket_free(n->sock);
	w_free(n->netns);
	w_free(n->tables.v);
	w_free(n->priorities.v);
	w_free(n->added);
	netlink_routes_free(n->applied);
	w_free(n);
}

static int netlink_learn_table(struct os_netlink *n, uint32_t table)
{
	return netlink_table_is_ours(n, table) ? 0 : netlink_set_add(&n->tables, table);
}

/* Which tables and priorities are ours from now on; main and local never are by a rule alone. */
static int netlink_learn(struct os_netlink *n, const struct kernel_state *want)
{
	int r = 0;

	n->protocol = want->protocol;
	n->span = want->rule_priorities ? want->rule_priorities : (uint32_t)want->rule_count;
	n->first_priority = n->last_priority = want->rule_count ? want->rule[0].priority : 0;
	n->range = want->source_table;
	n->ranged = want->source_tables;
	if (want->policy_table)
		r = netlink_set_add(&n->tables, want->policy_table);
	for (size_t i = 0; i < want->route_count && r == 0; i++)
		r = netlink_learn_table(n, want->route[i].table);
	for (uint32_t i = 0; i < want->rule_priorities && r == 0; i++)
		r = netlink_set_add(&n->priorities, want->rule_priority + i);
	for (size_t i = 0; i < want->rule_count && r == 0; i++) {
		uint32_t table = want->rule[i].table, at = want->rule[i].priority;

		n->first_priority = at < n->first_priority ? at : n->first_priority;
		n->last_priority = at > n->last_priority ? at : n->last_priority;
		if (want->rule[i].mask) {
			n->mark = want->rule[i].mark;
			n->mask = want->rule[i].mask;
		}
		if (table != RT_TABLE_MAIN && table != RT_TABLE_LOCAL)
			r = netlink_learn_table(n, table);
		if (r == 0)
			r = netlink_set_add(&n->priorities, want->rule[i].priority);
	}
	return r;
}

int os_netlink_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors)
{
	int r = netlink_learn(n, want);

	n->changes = 0;
	if (r < 0)
		return netlink_failed(errors, r, "kernel state");
	r = netlink_link_apply(n, want, errors);
	if (r < 0)
		return r;
	r = netlink_address_apply(n, want, errors);
	/* Rules point to tables: old ones go before their routes, new ones come after theirs, and
	 * what stays is never without its routes. */
	r = netlink_first(r, netlink_rule_apply(n, want, false, errors));
	r = netlink_first(r, netlink_route_apply(n, want, errors));
	return netlink_first(r, netlink_rule_apply(n, want, true, errors));
}

void os_netlink_bind(struct os_netlink *n, uint32_t ifindex)
{
	n->ifindex = ifindex;
	n->bound = true;
}

uint32_t os_netlink_priority(const struct os_netlink *n)
{
	return n->first_priority - n->shift;
}

uint32_t os_netlink_changes(const struct os_netlink *n)
{
	return n->changes;
}

int os_netlink_withdraw(struct os_netlink *n, struct buf *errors)
{
	struct kernel_state nothing = {.protocol = n->protocol};
	int r;

	if (n->protocol == 0)
		return 0;
	r = netlink_rule_apply(n, &nothing, false, errors);
	r = netlink_first(r, netlink_route_apply(n, &nothing, errors));
	return netlink_first(r, netlink_address_apply(n, &nothing, errors));
}
