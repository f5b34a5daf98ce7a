/* What the underlay is like: interfaces that may not be used, ways to the remotes, their MTU. */
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"

static void names_free(char **name, size_t n)
{
	for (size_t i = 0; name && i < n; i++)
		w_free(name[i]);
	w_free(name);
}

/* The names in the configuration, and that of the TUN where it is in the same namespace. */
int engine_excluded_set(struct engine *e, const struct config *c)
{
	size_t n = 0, most = c->underlay.exclude_interface_count + 1;
	char **name = w_calloc(most, sizeof(*name));

	if (!name)
		return -ENOMEM;
	for (size_t i = 0; i < c->underlay.exclude_interface_count; i++)
		name[n++] = w_strdup(c->underlay.exclude_interface[i]);
	if (!e->tun_netns == !e->underlay_netns &&
		(!e->tun_netns || strcmp(e->tun_netns, e->underlay_netns) == 0))
		name[n++] = w_strdup(c->tun.name);
	for (size_t i = 0; i < n; i++)
		if (!name[i]) {
			names_free(name, n);
			return -ENOMEM;
		}
	names_free(e->excluded_name, e->excluded_names);
	e->excluded_name = name;
	e->excluded_names = n;
	e->underlay_changed = true;
	return 0;
}

static void underlay_changed(void *ctx)
{
	struct engine *e = ctx;

	e->underlay_changed = true;
}

int engine_underlay_start(struct engine *e, const struct config *c)
{
	int r = os_netlink_open(e->underlay_netns, &e->underlay, &e->error);

	return r < 0 ? r : engine_excluded_set(e, c);
}

void engine_underlay_watch(struct engine *e)
{
	int r = os_route_watch_new(e->loop, e->underlay_netns, underlay_changed, e,
		&e->route_watch);

	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"changes of routes and interfaces cannot be watched: %s", strerror(-r));
}

void engine_underlay_stop(struct engine *e)
{
	os_route_watch_free(e->route_watch);
	os_netlink_close(e->underlay);
	os_interfaces_free(&e->excluded);
	names_free(e->excluded_name, e->excluded_names);
}

/* Looks again at what is excluded; true when that is other than before. */
static bool excluded_read(struct engine *e)
{
	struct os_interfaces now = {0};
	int r = os_interfaces_read(e->underlay_netns, (const char *const *)e->excluded_name,
		e->excluded_names, &now);

	if (r < 0) {
		os_log_printf(&e->config.log, OS_ERROR, "cannot read the interfaces: %s",
			strerror(-r));
		return false;
	}
	if (os_interfaces_equal(&now, &e->excluded)) {
		os_interfaces_free(&now);
		return false;
	}
	os_interfaces_free(&e->excluded);
	e->excluded = now;
	return true;
}

void engine_underlay(struct engine *e, wtime now)
{
	if (!e->underlay_changed || e->stopping || !wtime_due(e->underlay_at, now))
		return;
	e->underlay_changed = false;
	e->underlay_at = wtime_add(now, ENGINE_ADDRESSES_US);
	if (excluded_read(e)) {
		e->excluded_dirty = true;
		engine_sockets_update(e);
	}
	node_paths_changed(e->node, now);
}

static uint32_t bound_to(const struct node_socket *s)
{
	/* In another namespace the number is another one: the route by address is looked up then.
	 */
	return s->interface ? if_nametoindex(s->interface) : 0;
}

void engine_path(struct engine *e, const struct node_action *a)
{
	size_t n;
	const struct node_socket *s = node_sockets(e->node, &n);
	struct os_path_ask ask = {.remote = a->path.remote};
	struct os_path p = {0};
	struct node_path facts;

	if (a->path.socket < n) {
		ask.mark = s[a->path.socket].fwmark;
		ask.ifindex = e->underlay_netns ? 0 : bound_to(&s[a->path.socket]);
	}
	/* No way at all is not an excluded one: what is sent fails, and is tried again. */
	if (!e->underlay || os_netlink_path(e->underlay, &ask, &p) < 0)
		p = (struct os_path){0};
	facts = (struct node_path){.excluded = os_interfaces_have(&e->excluded, p.ifindex),
		.interface = p.interface,
		.mtu = p.mtu,
		.hint = p.learned};
	node_path(e->node, a->path.id, &facts, os_now());
}
