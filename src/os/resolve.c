/* Host names, on libuv's worker threads. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "os/loop_priv.h"
#include "os/net_priv.h"

struct resolve {
	struct list node;
	uv_getaddrinfo_t uv;
	struct os_resolve what; /* its name is only used to start */
};

void os_resolve_forget(struct list *node)
{
	struct resolve *r = container_of(node, struct resolve, node);

	r->what.fn = NULL;
	/* Only one that waits for a thread can be cancelled; then its callback comes at once. */
	(void)uv_cancel((uv_req_t *)&r->uv);
}

static void resolve_done(uv_getaddrinfo_t *uv, int status, struct addrinfo *found)
{
	struct resolve *r = uv->data;
	struct ipaddr address[OS_RESOLVE_MAX];
	size_t n = 0;

	for (struct addrinfo *a = status == 0 ? found : NULL; a && n < OS_RESOLVE_MAX;
		a = a->ai_next) {
		union os_sockaddr sa = {0};

		memcpy(&sa, a->ai_addr, a->ai_addrlen < sizeof(sa) ? a->ai_addrlen : sizeof(sa));
		address[n] = os_sockaddr_endpoint(&sa).ip;
		if (address[n].family == r->what.family)
			n++;
	}
	uv_freeaddrinfo(found);
	list_del(&r->node);
	if (r->what.fn)
		r->what.fn(r->what.ctx, r->what.id, address, n);
	w_free(r);
}

int os_resolve(struct os_loop *l, const struct os_resolve *what)
{
	struct addrinfo hints = {.ai_family = what->family == IP4 ? AF_INET : AF_INET6,
		.ai_socktype = SOCK_DGRAM};
	struct resolve *r = w_calloc(1, sizeof(*r));
	int e;

	if (!r)
		return -ENOMEM;
	r->what = *what;
	r->uv.data = r;
	e = uv_getaddrinfo(&l->uv, &r->uv, resolve_done, what->name, NULL, &hints);
	if (e < 0) {
		w_free(r);
		return e;
	}
	list_add_tail(&l->resolves, &r->node);
	return 0;
}
