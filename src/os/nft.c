/* nftables by netlink, read only: two small requests are not worth a library. */
#include "os/nft.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/netns.h"
#include "os/runner_priv.h"

enum { CHUNK = 1 << 16, READS_MAX = 64 };

struct os_nft {
	void (*fn)(void *ctx);
	void *ctx;
	struct nl_sock *ask;
	int fd; /* events; -1: none */
	struct os_watch *watch;
	struct buf table; /* its name, with a zero */
};

static int nft_open(void *ctx)
{
	struct os_nft *n = ctx;
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK};
	int group = NFNLGRP_NFTABLES;

	if (nl_connect(n->ask, NETLINK_NETFILTER) < 0)
		return -EPROTONOSUPPORT;
	if (!n->fn)
		return 0;
	n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
	if (n->fd < 0 || bind(n->fd, (struct sockaddr *)&nl, sizeof(nl)) < 0)
		return -errno;
	return setsockopt(n->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0
		? -errno
		: 0;
}

static bool has_deletion(void *chunk, ssize_t got)
{
	int left = (int)got;

	for (struct nlmsghdr *h = chunk; nlmsg_ok(h, left); h = nlmsg_next(h, &left)) {
		if (NFNL_SUBSYS_ID(h->nlmsg_type) != NFNL_SUBSYS_NFTABLES)
			continue;
		switch (NFNL_MSG_TYPE(h->nlmsg_type)) {
		case NFT_MSG_DELTABLE:
		case NFT_MSG_DELCHAIN:
		case NFT_MSG_DELRULE:
			return true;
		default:
			break;
		}
	}
	return false;
}

static void nft_events(void *ctx)
{
	struct os_nft *n = ctx;
	_Alignas(struct nlmsghdr) uint8_t chunk[CHUNK];
	bool lost = false;

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(n->fd, chunk, sizeof(chunk), 0);

		if (got < 0 && errno == ENOBUFS)
			lost = true;
		else if (got < 0 && errno != EINTR)
			break;
		else if (got > 0)
			lost |= has_deletion(chunk, got);
	}
	if (lost)
		n->fn(n->ctx);
}

int os_nft_new(struct os_loop *l, const struct os_nft_config *c, struct os_nft **ret)
{
	struct os_nft *n = w_calloc(1, sizeof(*n));
	struct buf error = {0};
	int r = 0;

	if (!n)
		return -ENOMEM;
	n->fn = c->fn;
	n->ctx = c->ctx;
	n->fd = -1;
	n->ask = nl_socket_alloc();
	if (!masquerade_table(c->tun, &n->table))
		r = -EINVAL;
	buf_add(&n->table, "", 1);
	if (r == 0 && (!n->ask || n->table.failed))
		r = -ENOMEM;
	if (r == 0)
		r = os_netns_run(c->netns, nft_open, n, &error);
	buf_free(&error);
	if (r == 0 && n->fn)
		r = os_watch_new(l, n->fd, nft_events, n, &n->watch);
	if (r < 0) {
		os_nft_free(n);
		return r;
	}
	*ret = n;
	return 0;
}

void os_nft_free(struct os_nft *n)
{
	if (!n)
		return;
	os_watch_free(n->watch);
	if (n->fd >= 0)
		close(n->fd);
	if (n->ask)
		nl_socket_free(n->ask);
	buf_free(&n->table);
	w_free(n);
}

/* ---- the question ---- */

struct question {
	const char *table;
	long rules;
	int error;
	bool done;
};

static int answer_rule(struct nl_msg *m, void *ctx)
{
	struct question *q = ctx;
	struct nlattr *a[NFTA_RULE_MAX + 1];

	if (nlmsg_parse(nlmsg_hdr(m), sizeof(struct nfgenmsg), a, NFTA_RULE_MAX, NULL) == 0 &&
		a[NFTA_RULE_TABLE] && nla_strcmp(a[NFTA_RULE_TABLE], q->table) == 0)
		q->rules++;
	return NL_OK;
}

static int answer_end(struct nl_msg *m, void *ctx)
{
	(void)m;
	((struct question *)ctx)->done = true;
	return NL_STOP;
}

static int answer_error(struct sockaddr_nl *who, struct nlmsgerr *e, void *ctx)
{
	struct question *q = ctx;

	(void)who;
	q->error = e->error;
	q->done = true;
	return NL_STOP;
}

static struct nl_msg *rules_request(const char *table)
{
	struct nl_msg *m = nlmsg_alloc_simple(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE,
		NLM_F_DUMP);
	const struct nfgenmsg g = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};

	if (m && nlmsg_append(m, (void *)(uintptr_t)&g, sizeof(g), NLMSG_ALIGNTO) == 0 &&
		nla_put_string(m, NFTA_RULE_TABLE, table) == 0)
		return m;
	nlmsg_free(m);
	return NULL;
}

long os_nft_rules(const struct os_nft *n)
{
	struct question q = {.table = (const char *)n->table.p};
	struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
	struct nl_msg *m = rules_request(q.table);
	int r = m && cb ? 0 : -ENOMEM;

	if (r == 0) {
		nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, answer_rule, &q);
		nl_cb_set(cb, NL_CB_FINISH, NL_CB_CUSTOM, answer_end, &q);
		nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, answer_end, &q);
		nl_cb_err(cb, NL_CB_CUSTOM, answer_error, &q);
		r = nl_send_auto(n->ask, m) < 0 ? -EIO : 0;
	}
	while (r == 0 && !q.done)
		if (nl_recvmsgs(n->ask, cb) < 0 && !q.done)
			r = -EIO;
	if (cb)
		nl_cb_put(cb);
	nlmsg_free(m);
	if (r == 0 && q.error && q.error != -ENOENT)
		r = q.error;
	return r < 0 ? r : q.rules;
}
