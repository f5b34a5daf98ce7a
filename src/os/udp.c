/* UDP sockets: opening, ancillary data, and the sending of one datagram, for both back ends. */
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <netinet/udp.h>
#include "base/cur.h"
#include "base/mem.h"
#include "os/net_priv.h"
#include "os/netns.h"

enum { UDP_QUEUE = 2 << 20 }; /* bytes of socket buffer each way */

struct udp_job {
	const struct os_udp_config *config;
	struct os_udp *udp;
	struct buf *error;
};

static int udp_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* The forced form needs CAP_NET_ADMIN; the other one is cut to the system's limit. */
static void udp_set_queues(int fd)
{
	if (udp_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, UDP_QUEUE) < 0)
		(void)udp_set(fd, SOL_SOCKET, SO_RCVBUF, UDP_QUEUE);
	if (udp_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, UDP_QUEUE) < 0)
		(void)udp_set(fd, SOL_SOCKET, SO_SNDBUF, UDP_QUEUE);
}

/* Whether datagrams may be fragmented. IPv4: no DF, and ICMP messages, which anybody can send,
 * change nothing. IPv6: this host fragments, to what an ICMP message said. When they may not: sent
 * as they are if the interface takes them (RFC 8899 4.1: a probe is not fragmented). */
static int udp_set_fragments(int fd, enum ip_family family, bool may)
{
	if (family == IP4)
		return udp_set(fd, IPPROTO_IP, IP_MTU_DISCOVER,
			may ? IP_PMTUDISC_OMIT : IP_PMTUDISC_PROBE);
	return udp_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
		may ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_PROBE);
}

static int udp_set_family(int fd, const struct os_udp_config *c)
{
	int r;

	if (c->family == IP4) {
		r = udp_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		if (r == 0)
			r = udp_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		if (r == 0)
			r = udp_set_fragments(fd, c->family, true);
		return r;
	}
	r = udp_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (r == 0)
		r = udp_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	if (r == 0)
		r = udp_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	if (r == 0)
		r = udp_set_fragments(fd, c->family, true);
	return r;
}

static void udp_name(const struct os_udp_config *c, struct buf *out)
{
	struct endpoint e = {.ip = c->address, .port = c->port};
	char text[ENDPOINT_TEXT];

	if (c->address.family != IP_NONE)
		buf_printf(out, "UDP %s", endpoint_format(&e, text));
	else
		buf_printf(out, "UDP port %u (%s)", c->port, c->family == IP4 ? "IPv4" : "IPv6");
}

static void udp_explain(const struct os_udp_config *c, const char *what, int r, struct buf *error)
{
	udp_name(c, error);
	if (r == -EADDRINUSE) {
		struct buf owner = {0};

		os_udp_port_owner(c->port, &owner);
		buf_printf(error,
			": the port is in use%s%.*s: stop that program, or set another "
			"port",
			owner.n ? " by " : "", (int)owner.n, owner.n ? (const char *)owner.p : "");
		buf_free(&owner);
	} else if (r == -EADDRNOTAVAIL) {
		buf_printf(error, ": this host does not have the address; leave it out to use any");
	} else if (r == -EACCES && c->port < IPPORT_RESERVED) {
		buf_printf(error, ": not allowed: ports below %d need CAP_NET_BIND_SERVICE",
			IPPORT_RESERVED);
	} else if (r == -EPERM) {
		buf_printf(error, ": %s: not allowed: CAP_NET_ADMIN is needed", what);
	} else {
		buf_printf(error, ": %s: %s", what, strerror(-r));
	}
}

/* Which of several sockets of an address a datagram is for; to be told once it is bound. What the
 * filter sees begins behind the UDP header; where there are no 32 bits (a keepalive) it answers 0.
 */
static int udp_steer(int fd, uint32_t siblings)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, siblings),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0
		? -errno
		: 0;
}

/* Whether nobody else has the address: where several sockets may share it, the kernel would let us
 * join those of another program. */
static int udp_free(const struct os_udp_config *c, const union os_sockaddr *a, socklen_t n)
{
	int fd = socket(c->family == IP4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && c->family == IP6)
		r = udp_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (r == 0 && c->interface &&
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->interface,
			(socklen_t)strlen(c->interface)) < 0)
		r = -errno;
	if (r == 0 && bind(fd, &a->sa, n) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

/* Sets everything and binds; *ret_what is the step that failed. */
static int udp_prepare(int fd, const struct os_udp_config *c, const char **ret_what)
{
	struct endpoint e = {.ip = c->address, .port = c->port};
	union os_sockaddr a;
	socklen_t n;
	int r;

	*ret_what = "socket options";
	r = udp_set_family(fd, c);
	if (r < 0)
		return r;
	udp_set_queues(fd);
	*ret_what = "fwmark";
	if (c->mark && (r = udp_set(fd, SOL_SOCKET, SO_MARK, (int)c->mark)) < 0)
		return r;
	*ret_what = "interface";
	if (c->interface &&
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->interface,
			(socklen_t)strlen(c->interface)) < 0)
		return -errno;
	*ret_what = "SO_REUSEPORT";
	if (c->siblings > 1 && (r = udp_set(fd, SOL_SOCKET, SO_REUSEPORT, 1)) < 0)
		return r;
	*ret_what = "bind";
	e.ip.family = (uint8_t)c->family;
	if (ipaddr_is_link_local(&e.ip) && c->interface)
		e.scope = if_nametoindex(c->interface);
	n = os_sockaddr_from(&e, &a);
	if (c->siblings > 1 && !c->further && (r = udp_free(c, &a, n)) < 0)
		return r;
	if (bind(fd, &a.sa, n) < 0)
		return -errno;
	*ret_what = "SO_ATTACH_REUSEPORT_CBPF";
	return c->siblings > 1 ? udp_steer(fd, c->siblings) : 0;
}

static int udp_job(void *ctx)
{
	struct udp_job *job = ctx;
	const struct os_udp_config *c = job->config;
	struct os_udp *u = w_calloc(1, sizeof(*u));
	union os_sockaddr a = {0};
	socklen_t n = sizeof(a);
	const char *what = "socket";
	int r;

	if (!u)
		return -ENOMEM;
	u->index = c->index;
	u->family = (uint8_t)c->family;
	u->fd = socket(c->family == IP4 ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	r = u->fd < 0 ? -errno : udp_prepare(u->fd, c, &what);
	if (r == 0 && getsockname(u->fd, &a.sa, &n) < 0)
		r = -errno;
	if (r < 0) {
		udp_explain(c, what, r, job->error);
		if (u->fd >= 0)
			close(u->fd);
		w_free(u);
		return r;
	}
	u->port = os_sockaddr_endpoint(&a).port;
	job->udp = u;
	return 0;
}

int os_udp_bind(const struct os_udp_config *c, struct os_udp **ret, struct buf *error)
{
	struct udp_job job = {.config = c, .error = error};
	int r;

	if ((c->family != IP4 && c->family != IP6) ||
		(c->address.family != IP_NONE && c->address.family != c->family)) {
		udp_name(c, error);
		buf_printf(error, ": the address is not of the endpoint's family");
		return -EINVAL;
	}
	r = os_netns_run(c->netns, udp_job, &job, error);
	if (r == 0)
		*ret = job.udp;
	return r;
}

void os_udp_close(struct os_udp *u)
{
	if (!u)
		return;
	close(u->fd);
	w_free(u);
}

static struct cmsghdr *control_add(struct msghdr *m, struct cmsghdr *at, int level, int type,
	struct view data)
{
	m->msg_controllen += CMSG_SPACE(data.n);
	at = at ? CMSG_NXTHDR(m, at) : CMSG_FIRSTHDR(m);
	at->cmsg_level = level;
	at->cmsg_type = type;
	at->cmsg_len = CMSG_LEN(data.n);
	memcpy(CMSG_DATA(at), data.p, data.n);
	return at;
}

void os_udp_control(struct msghdr *m, void *buffer, const struct udp_tx *tx, bool pin,
	uint16_t segment)
{
	bool six = tx->remote.ip.family == IP6;
	struct cmsghdr *at = NULL;
	int tos = tx->tos;

	memset(buffer, 0, OS_CONTROL);
	m->msg_control = buffer;
	m->msg_controllen = 0;
	if (pin && tx->local.ip.family == IP4 && !six) {
		struct in_pktinfo info = {0};

		memcpy(&info.ipi_spec_dst, tx->local.ip.b, sizeof(info.ipi_spec_dst));
		at = control_add(m, at, IPPROTO_IP, IP_PKTINFO, view_of(&info, sizeof(info)));
	} else if (pin && tx->local.ip.family == IP6 && six) {
		struct in6_pktinfo info = {.ipi6_ifindex = tx->local.scope};

		memcpy(&info.ipi6_addr, tx->local.ip.b, sizeof(info.ipi6_addr));
		at = control_add(m, at, IPPROTO_IPV6, IPV6_PKTINFO, view_of(&info, sizeof(info)));
	}
	if (tos)
		at = control_add(m, at, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS,
			view_of(&tos, sizeof(tos)));
	if (segment)
		(void)control_add(m, at, SOL_UDP, UDP_SEGMENT, view_of(&segment, sizeof(segment)));
	if (m->msg_controllen == 0)
		m->msg_control = NULL;
}

static int control_int(const struct cmsghdr *c)
{
	int v = 0;

	/* IP_TOS comes as one byte, the others as int. */
	if (c->cmsg_len < CMSG_LEN(sizeof(v)))
		return c->cmsg_len >= CMSG_LEN(1) ? *CMSG_DATA(c) : 0;
	memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v;
}

static void control_one(const struct cmsghdr *c, struct udp_rx *ret)
{
	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		struct in_pktinfo info;

		memcpy(&info, CMSG_DATA(c), sizeof(info));
		ret->local.ip = ipaddr_from(IP4, &info.ipi_addr);
		ret->ifindex = (uint32_t)info.ipi_ifindex;
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		struct in6_pktinfo info;

		memcpy(&info, CMSG_DATA(c), sizeof(info));
		ret->local.ip = ipaddr_from(IP6, &info.ipi6_addr);
		ret->ifindex = info.ipi6_ifindex;
		if (ipaddr_is_link_local(&ret->local.ip))
			ret->local.scope = info.ipi6_ifindex;
	} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
		ret->tos = (uint8_t)control_int(c);
	} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		int size = control_int(c);

		ret->seg_size = size > 0 && (uint32_t)size < ret->len ? (uint32_t)size : 0;
	}
}

void os_udp_parse(const struct os_udp *u, struct msghdr *m, struct udp_rx *ret)
{
	union os_sockaddr a = {0};

	memcpy(&a, m->msg_name, m->msg_namelen < sizeof(a) ? m->msg_namelen : sizeof(a));
	ret->remote = os_sockaddr_endpoint(&a);
	ret->local = (struct endpoint){.port = u->port};
	ret->truncated = m->msg_flags & MSG_TRUNC;
	ret->seg_size = 0;
	ret->tos = 0;
	ret->ifindex = 0;
	ret->socket = u->index;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		control_one(c, ret);
	/* Without the segment size the rest of the buffer cannot be cut. */
	if (m->msg_flags & MSG_CTRUNC)
		ret->truncated = true;
}

static bool source_gone(int error)
{
	return error == EINVAL || error == EADDRNOTAVAIL || error == ENETUNREACH ||
		error == EHOSTUNREACH || error == ENODEV;
}

bool os_udp_send_one(struct os_udp *u, const struct udp_tx *tx, struct view data,
	struct os_udp_result *result)
{
	_Alignas(struct cmsghdr) uint8_t control[OS_CONTROL];
	union os_sockaddr to;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data.p, .iov_len = data.n};
	struct msghdr m = {.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1};
	bool pin = tx->local.ip.family != IP_NONE;

	m.msg_namelen = os_sockaddr_from(&tx->remote, &to);
	for (;;) {
		os_udp_control(&m, control, tx, pin, 0);
		if (sendmsg(u->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			result->sent++;
			result->unpinned += tx->local.ip.family != IP_NONE && !pin;
			return true;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == ENOBUFS) {
			result->full++;
			return false;
		}
		if (!pin || !source_gone(errno))
			break;
		pin = false;
	}
	result->error = -errno;
	result->failed++;
	return true;
}

/* The option is the socket's: others that send by it meanwhile have their datagrams sent so, too,
 * which is no more than they are ready for. */
bool os_udp_send_whole(struct os_udp *u, const struct udp_tx *tx, struct os_udp_result *result)
{
	bool room;
	int r = udp_set_fragments(u->fd, u->family, false);

	if (r < 0) {
		result->error = r;
		result->failed++;
		return true;
	}
	room = os_udp_send_one(u, tx, view_of(tx->data, tx->len), result);
	r = udp_set_fragments(u->fd, u->family, true);
	if (r < 0)
		result->error = r;
	return room;
}
