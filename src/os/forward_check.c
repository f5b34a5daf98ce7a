/* Whether a firewall drops what is forwarded, unless a rule of it says otherwise: base chains of
 * nf_tables at the hook `forward` whose policy is drop, as container engines and iptables (its form
 * over nf_tables) make them. What the rules say is not worked out. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netlink/attr.h>
#include <string.h>
#include "os/netlink_priv.h"
#include "os/netns.h"

static const char *family_name(uint8_t family)
{
	switch (family) {
	case NFPROTO_IPV4:
		return "ip";
	case NFPROTO_IPV6:
		return "ip6";
	case NFPROTO_INET:
		return "inet";
	default:
		return NULL; /* bridges, and devices before routing */
	}
}

static bool is_text(const struct nlattr *a)
{
	return a && nla_len(a) > 0 && memchr(nla_data(a), 0, (size_t)nla_len(a));
}

static int chain_each(void *ctx, struct nlmsghdr *h)
{
	struct buf *warnings = ctx;
	struct nfgenmsg *g = nlmsg_data(h);
	struct nlattr *a[NFTA_CHAIN_MAX + 1], *hook[NFTA_HOOK_MAX + 1];
	const char *family;

	if (nlmsg_datalen(h) < (int)sizeof(*g) ||
		nlmsg_parse(h, sizeof(*g), a, NFTA_CHAIN_MAX, NULL) < 0 || !a[NFTA_CHAIN_HOOK] ||
		!a[NFTA_CHAIN_POLICY] || nla_len(a[NFTA_CHAIN_POLICY]) != sizeof(uint32_t) ||
		!is_text(a[NFTA_CHAIN_NAME]) || !is_text(a[NFTA_CHAIN_TABLE]) ||
		nla_parse_nested(hook, NFTA_HOOK_MAX, a[NFTA_CHAIN_HOOK], NULL) < 0 ||
		!hook[NFTA_HOOK_HOOKNUM] || nla_len(hook[NFTA_HOOK_HOOKNUM]) != sizeof(uint32_t))
		return 0;
	family = family_name(g->nfgen_family);
	if (!family || ntohl(nla_get_u32(hook[NFTA_HOOK_HOOKNUM])) != NF_INET_FORWARD ||
		ntohl(nla_get_u32(a[NFTA_CHAIN_POLICY])) != NF_DROP)
		return 0;
	buf_printf(warnings,
		"firewall: chain %.64s of table %s %.64s drops what is forwarded and no rule of it "
		"accepts: let packets from and to the TUN pass there, or this node's LAN and exit "
		"are not reached\n",
		(const char *)nla_data(a[NFTA_CHAIN_NAME]), family,
		(const char *)nla_data(a[NFTA_CHAIN_TABLE]));
	return 0;
}

static int forward_job(void *ctx)
{
	struct nfgenmsg g = {.nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0};
	struct os_netlink n = {.sock = nl_socket_alloc()};
	int r = n.sock ? 0 : -ENOMEM;

	if (r == 0 && nl_connect(n.sock, NETLINK_NETFILTER) < 0)
		r = -EPROTONOSUPPORT;
	if (r == 0)
		r = netlink_request(&n,
			netlink_message(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP,
				&g, sizeof(g)),
			chain_each, ctx);
	if (n.sock)
		nl_socket_free(n.sock);
	return r;
}

int os_forward_check(const char *netns, struct buf *warnings)
{
	struct buf error = {0};
	int r = os_netns_run(netns, forward_job, warnings, &error);

	buf_free(&error);
	/* A kernel without nf_tables drops nothing by it. */
	return r == -EPROTONOSUPPORT || r == -EOPNOTSUPP || r == -EINVAL || r == -ENOENT ? 0 : r;
}
