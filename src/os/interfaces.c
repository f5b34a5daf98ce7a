/* What a list of interface names means now: their numbers and addresses. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include "base/mem.h"
#include "os/net_priv.h"
#include "os/netlink.h"
#include "os/netns.h"

struct job {
	const char *const *name;
	size_t n;
	struct os_interfaces *out;
};

static bool job_has(const struct job *j, const char *name)
{
	for (size_t i = 0; i < j->n; i++)
		if (strcmp(j->name[i], name) == 0)
			return true;
	return false;
}

static int add_address(struct os_interfaces *o, const struct sockaddr *sa)
{
	union os_sockaddr a = {0};
	struct ipaddr *grown;

	memcpy(&a, sa,
		sa->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					 : sizeof(struct sockaddr_in6));
	grown = w_realloc(o->address, (o->addresses + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[o->addresses++] = os_sockaddr_endpoint(&a).ip;
	o->address = grown;
	return 0;
}

static int job_run(void *ctx)
{
	struct job *j = ctx;
	struct os_interfaces *o = j->out;
	struct ifaddrs *all;
	int r = 0;

	o->ifindex = w_calloc(j->n + 1, sizeof(*o->ifindex));
	if (!o->ifindex)
		return -ENOMEM;
	for (size_t i = 0; i < j->n; i++) {
		unsigned int number = if_nametoindex(j->name[i]);

		if (number)
			o->ifindex[o->ifindexes++] = number;
	}
	if (o->ifindexes == 0)
		return 0;
	if (getifaddrs(&all) < 0)
		return -errno;
	for (struct ifaddrs *i = all; i && r == 0; i = i->ifa_next)
		if (i->ifa_addr && job_has(j, i->ifa_name) &&
			(i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6))
			r = add_address(o, i->ifa_addr);
	freeifaddrs(all);
	return r;
}

int os_interfaces_read(const char *netns, const char *const *name, size_t n,
	struct os_interfaces *ret)
{
	struct os_interfaces o = {0};
	struct job j = {name, n, &o};
	struct buf error = {0};
	int r = os_netns_run(netns, job_run, &j, &error);

	buf_free(&error);
	if (r < 0)
		os_interfaces_free(&o);
	else
		*ret = o;
	return r;
}

void os_interfaces_free(struct os_interfaces *i)
{
	w_free(i->ifindex);
	w_free(i->address);
	*i = (struct os_interfaces){0};
}

int os_interfaces_copy(const struct os_interfaces *i, struct os_interfaces *ret)
{
	struct os_interfaces copy = {.ifindexes = i->ifindexes, .addresses = i->addresses};

	if (i->ifindexes)
		copy.ifindex = w_memdup(i->ifindex, i->ifindexes * sizeof(*i->ifindex));
	if (i->addresses)
		copy.address = w_memdup(i->address, i->addresses * sizeof(*i->address));
	if ((i->ifindexes && !copy.ifindex) || (i->addresses && !copy.address)) {
		os_interfaces_free(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

bool os_interfaces_equal(const struct os_interfaces *a, const struct os_interfaces *b)
{
	if (a->ifindexes != b->ifindexes || a->addresses != b->addresses)
		return false;
	for (size_t i = 0; i < a->ifindexes; i++)
		if (a->ifindex[i] != b->ifindex[i])
			return false;
	for (size_t i = 0; i < a->addresses; i++)
		if (!ipaddr_equal(&a->address[i], &b->address[i]))
			return false;
	return true;
}

bool os_interfaces_have(const struct os_interfaces *i, uint32_t ifindex)
{
	for (size_t k = 0; k < i->ifindexes; k++)
		if (i->ifindex[k] == ifindex)
			return true;
	return false;
}

bool os_interfaces_have_address(const struct os_interfaces *i, const struct ipaddr *a)
{
	for (size_t k = 0; k < i->addresses; k++)
		if (ipaddr_equal(&i->address[k], a))
			return true;
	return false;
}
