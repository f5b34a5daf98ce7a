/* The choice of a back end, and what both have in common. */
#include "os/net.h"
#include <stdlib.h>
#include <string.h>
#include "os/net_priv.h"

const struct os_net *os_net_find(const char *name)
{
	if (!name || !*name)
		name = getenv("WEFT_OS");
	if (!name || !*name || strcmp(name, "linux") == 0)
		return os_net_linux();
	return strcmp(name, "portable") == 0 ? os_net_portable() : NULL;
}

struct os_tun_facts os_tun_facts(const struct os_tun *t)
{
	return (struct os_tun_facts){.fd = t->fd,
		.bulk_fd = t->bulk_fd,
		.ifindex = t->ifindex,
		.header = t->header,
		.tso = t->tso,
		.uso = t->uso,
		.merge_tcp = t->merge_tcp,
		.merge_udp = t->merge_udp};
}

struct os_udp_facts os_udp_facts(const struct os_udp *u)
{
	return (struct os_udp_facts){.fd = u->fd,
		.port = u->port,
		.gso = u->gso,
		.gro = u->gro,
		.gro_can = u->gro_can};
}

socklen_t os_sockaddr_from(const struct endpoint *e, union os_sockaddr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (e->ip.family == IP6) {
		ret->in6.sin6_family = AF_INET6;
		ret->in6.sin6_port = htons(e->port);
		ret->in6.sin6_scope_id = e->scope;
		memcpy(&ret->in6.sin6_addr, e->ip.b, sizeof(ret->in6.sin6_addr));
		return sizeof(ret->in6);
	}
	ret->in.sin_family = AF_INET;
	ret->in.sin_port = htons(e->port);
	memcpy(&ret->in.sin_addr, e->ip.b, sizeof(ret->in.sin_addr));
	return sizeof(ret->in);
}

struct endpoint os_sockaddr_endpoint(const union os_sockaddr *a)
{
	struct endpoint e = {0};

	if (a->sa.sa_family == AF_INET) {
		e.ip = ipaddr_from(IP4, &a->in.sin_addr);
		e.port = ntohs(a->in.sin_port);
	} else if (a->sa.sa_family == AF_INET6) {
		e.ip = ipaddr_from(IP6, &a->in6.sin6_addr);
		e.port = ntohs(a->in6.sin6_port);
		e.scope = ipaddr_is_link_local(&e.ip) ? a->in6.sin6_scope_id : 0;
	}
	return e;
}
