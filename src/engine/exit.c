/* What an exit needs of its kernel: the masquerading rules, which the helper process sets up and
 * which are put back when another program takes them away (`nft flush ruleset`), not more than once
 * a second; and a warning while forwarding is off. */
#include <errno.h>
#include <string.h>
#include "engine/engine_priv.h"
#include "os/clock.h"

static void nat_fault(struct engine *e, const char *fault)
{
	struct buf line = {0};

	if (fault[0])
		buf_printf(&line,
			"exit.masquerade: %s; packets leave with the mesh's addresses%s\n", fault,
			strstr(fault, "cannot be run") ? ": install nftables" : "");
	e->nat_failed = fault[0];
	if (e->nat_failed)
		e->nat_at = wtime_add(os_now(), ENGINE_NAT_RETRY_US);
	if (!view_equal(buf_view(&line), buf_view(&e->warn_exit)))
		engine_log_lines(e, OS_WARNING, &line);
	buf_free(&e->warn_exit);
	e->warn_exit = line;
}

static void nat_order(struct engine *e, const struct kernel_state *want)
{
	const struct os_masquerade m = {.tun = want->tun,
		.netns = e->tun_netns,
		.on = want->masquerade,
		.keep = want->keep,
		.keep_count = want->keep_count};
	int r = os_runner_masquerade(e->config.runner, &m);

	e->nat_patience = wtime_add(os_now(), ENGINE_NAT_ORDER_US);
	e->nat_rules = want->masquerade ? (long)os_masquerade_rules(want->keep_count) : 0;
	if (r == -E2BIG)
		nat_fault(e, "too many prefixes are announced");
	else if (r < 0)
		nat_fault(e, strerror(-r));
}

/* Something was deleted, perhaps ours: a look is due soon, and not too often. */
static void nat_lost(void *ctx)
{
	struct engine *e = ctx;
	wtime soon = wtime_add(os_now(), ENGINE_RESTORE_US);

	e->nat_at = wtime_min(e->nat_at, wtime_before(soon, e->nat_next) ? e->nat_next : soon);
}

/* What the helper has to know, for comparison. */
static void nat_text(const struct kernel_state *want, struct buf *b)
{
	char text[PREFIX_TEXT];

	for (size_t i = 0; want->masquerade && i < want->keep_count; i++)
		buf_printf(b, "%s ", prefix_format(&want->keep[i], text));
	buf_add_str(b, want->masquerade ? "on" : "off");
}

/* A predecessor whose helper was killed with it left its rules. */
static bool nat_left(const struct engine *e, const struct kernel_state *want)
{
	struct os_nft_config c = {.netns = e->tun_netns, .tun = want->tun};
	struct os_nft *n;
	bool left;

	if (os_nft_new(NULL, &c, &n) < 0)
		return false;
	left = os_nft_rules(n) > 0;
	os_nft_free(n);
	return left;
}

static void nat_watch(struct engine *e, const struct kernel_state *want)
{
	const struct os_nft_config c = {.netns = e->tun_netns,
		.tun = want->tun,
		.fn = nat_lost,
		.ctx = e};
	int r;

	if (!want->masquerade) {
		os_nft_free(e->nft);
		e->nft = NULL;
		return;
	}
	r = e->nft ? 0 : os_nft_new(e->loop, &c, &e->nft);
	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"exit.masquerade: rules that another program removes are not noticed: %s",
			strerror(-r));
}

void engine_exit_apply(struct engine *e)
{
	const struct kernel_state *want = node_kernel(e->node);
	bool first = e->nat_told.n == 0, on = want->masquerade, was = e->nat_rules > 0;
	struct buf told = {0}, lines = {0};

	nat_text(want, &told);
	if (!view_equal(buf_view(&told), buf_view(&e->nat_told)) && !e->stopping) {
		nat_watch(e, want);
		if (!e->config.runner && on)
			nat_fault(e, "there is no helper process");
		else if (e->config.runner && (on || was || (first && nat_left(e, want))))
			nat_order(e, want);
		os_forwarding_check(e->tun_netns, want, &lines);
		engine_log_lines(e, OS_WARNING, &lines);
		buf_free(&lines);
		buf_free(&e->nat_told);
		e->nat_told = told;
		return;
	}
	buf_free(&told);
}

void engine_exit(struct engine *e, wtime now)
{
	const struct kernel_state *want = node_kernel(e->node);

	if (!wtime_due(e->nat_at, now) || e->stopping)
		return;
	e->nat_at = WTIME_NEVER;
	if (!wtime_due(e->nat_patience, now)) {
		e->nat_at = e->nat_patience;
		return;
	}
	if (!want->masquerade || !e->config.runner || !e->runner_watch || !e->nft ||
		os_nft_rules(e->nft) == e->nat_rules)
		return;
	e->nat_next = wtime_add(now, ENGINE_RESTORE_GAP_US);
	if (!e->nat_failed && wtime_due(e->restore_log_at, now)) {
		os_log_line(&e->config.log, OS_WARNING,
			"another program took away the rules of exit.masquerade: restored");
		e->restore_log_at = wtime_add(now, ENGINE_RESTORE_LOG_US);
	}
	nat_order(e, want);
}

void engine_exit_told(struct engine *e)
{
	const char *fault;

	if (!os_runner_masquerade_done(e->config.runner, &fault))
		return;
	e->nat_patience = os_now();
	nat_fault(e, fault);
	if (!e->nat_failed)
		nat_lost(e); /* what was missed meanwhile */
}

void engine_exit_warnings(const struct engine *e, struct buf *lines)
{
	buf_add(lines, e->warn_exit.p, e->warn_exit.n);
	os_forwarding_check(e->tun_netns, node_kernel(e->node), lines);
}

void engine_exit_stop(struct engine *e)
{
	os_nft_free(e->nft);
	e->nft = NULL;
	buf_free(&e->nat_told);
}
