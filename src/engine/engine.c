/* Starting, running, stopping. Start-up is a ladder, stopping is the same ladder read upwards. */
#include "engine/engine.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"
#include "os/privilege.h"
#include "os/sandbox.h"

enum { LOW_PORT = 1024, STOP_TURN_US = 1000 };

static void engine_idle(void *ctx)
{
	engine_turn(ctx);
}

/* The turn does the work; being woken is enough. */
static void engine_woken(void *ctx)
{
	(void)ctx;
}

static void engine_stop_signal(void *ctx)
{
	struct engine *e = ctx;

	os_loop_stop(e->loop);
}

static void engine_addresses(void *ctx)
{
	struct engine *e = ctx;

	e->addresses_changed = true;
}

static int check_privilege(const struct config *c, struct buf *error)
{
	struct os_privilege_need need = {.net_admin = true,
		.other_netns = c->tun.netns || c->underlay.netns};

	for (size_t i = 0; i < c->endpoint_count; i++)
		need.low_port |= c->endpoint[i].port < LOW_PORT;
	return os_privilege_check(&need, error);
}

static uint32_t cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > ENGINE_PLANES ? ENGINE_PLANES : (uint32_t)n;
}

/* One for each plane that finds a core left over; none where both are few. */
static uint32_t helpers(const struct config *c, uint32_t planes)
{
	uint32_t n = cores(), left = n > planes ? n - planes : 0;

	if (c->plane.helpers != CONF_HELPERS_AUTO)
		return c->plane.helpers;
	return n <= 2 ? 0 : left < planes ? left : planes;
}

/* What is needed of the configuration after the node owns it. */
static int keep_config(struct engine *e, const struct config *c)
{
	engine_offload_start(e, c);
	e->planes = c->plane.threads ? c->plane.threads : cores();
	e->helpers = helpers(c, e->planes);
	for (uint32_t i = 0; i < e->planes; i++) {
		struct engine_plane *t = w_calloc(1, sizeof(*t));

		if (!t)
			return -ENOMEM;
		e->plane[i] = t;
		t->epoll = t->event = -1;
		t->planes = e->plane;
		t->offload = e->offload;
		t->config.number = i;
		t->config.planes = e->planes;
		t->config.helpers = e->helpers;
		t->helper = e->helper;
		t->config.aqm = c->plane.aqm != CONF_OFF;
	}
	if (c->tun.netns && !(e->tun_netns = w_strdup(c->tun.netns)))
		return -ENOMEM;
	if (c->underlay.netns && !(e->underlay_netns = w_strdup(c->underlay.netns)))
		return -ENOMEM;
	if (c->underlay.vrf && !(e->underlay_vrf = w_strdup(c->underlay.vrf)))
		return -ENOMEM;
	e->log = c->log;
	return 0;
}

static int start_loop(struct engine *e)
{
	int r = os_loop_new(&e->loop);

	if (r == 0)
		r = os_wake_new(e->loop, engine_woken, e, &e->wake);
	if (r == 0)
		r = os_timer_new(e->loop, engine_woken, e, &e->timer);
	if (r == 0)
		r = os_signal_new(e->loop, SIGTERM, engine_stop_signal, e, &e->signal[0]);
	if (r == 0)
		r = os_signal_new(e->loop, SIGINT, engine_stop_signal, e, &e->signal[1]);
	if (r == 0)
		r = os_signal_new(e->loop, SIGHUP, engine_reload_logged, e, &e->signal[2]);
	if (r == 0)
		r = engine_updown_start(e);
	return r;
}

static int start_control(struct engine *e, const struct config *c)
{
	struct os_control_config k = {.path = c->control.socket,
		.group = c->control.group,
		.request = engine_request,
		.ctx = e};
	struct buf message = {0};
	int r = os_control_new(e->loop, &k, &e->control, &message);

	if (message.n) {
		struct buf *to = r < 0 ? &e->error : &e->warn_start;

		buf_add(to, message.p, message.n);
		buf_add_str(to, "\n");
	}
	buf_free(&message);
	return r;
}

static int start_tun(struct engine *e, const struct config *c)
{
	struct os_tun *tun[ENGINE_PLANES];
	int r = engine_tun_open(e, c, tun, &e->error);

	for (uint32_t i = 0; r == 0 && i < e->planes; i++)
		e->plane[i]->tun = tun[i];

	if (r == 0)
		r = os_netlink_open(e->tun_netns, &e->netlink, &e->error);
	if (r == 0)
		os_netlink_bind(e->netlink, os_tun_facts(e->tun).ifindex);
	if (r == 0)
		r = node_spis_new(&e->spis);
	for (uint32_t i = 0; r == 0 && i < e->planes; i++) {
		e->plane[i]->wake = e->wake;
		e->plane[i]->spis = e->spis;
		r = engine_plane_init(e->plane[i], &e->config);
	}
	return r;
}

static int start_node(struct engine *e)
{
	struct node_config c = {.rng = os_rng(),
		.key = e->config.key,
		.crypto = e->config.crypto,
		.config = e->config.config,
		.registry = e->config.registry,
		.version = e->config.version,
		.epoch_s = os_wall_clock_s(),
		.planes = e->planes,
		.helpers = e->helpers,
		.spis = e->spis};

	e->config.config = NULL;
	e->config.registry = NULL;
	return node_new(&c, os_now(), &e->node, &e->error);
}

/* Sockets and kernel state are the node's first wishes. */
static int start_wishes(struct engine *e)
{
	e->starting = true;
	engine_sockets_update(e);
	if (e->failed == 0)
		engine_turn(e);
	e->starting = false;
	return e->failed;
}

void engine_watch(struct engine *e, const char *path)
{
	int r;

	if (e->watched && path && strcmp(e->watched, path) == 0)
		return;
	os_file_watch_free(e->watch);
	e->watch = NULL;
	w_free(e->watched);
	e->watched = path ? w_strdup(path) : NULL;
	if (!path)
		return;
	r = e->watched ? os_file_watch_new(e->loop, e->watched, engine_reload_logged, e, &e->watch)
		       : -ENOMEM;
	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"%s cannot be watched for changes: %s; use weft reload", path,
			strerror(-r));
}

static void start_watches(struct engine *e, const char *registry)
{
	int r = os_address_watch_new(e->loop, e->underlay_netns, engine_addresses, e,
		&e->addresses);

	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"changes of local addresses cannot be watched: %s", strerror(-r));
	engine_restore_start(e);
	engine_host_watch(e);
	engine_underlay_watch(e);
	engine_watch(e, registry);
}

/* Everything is open: what is not needed from here on is given up, before there are threads. */
static int start_sandbox(struct engine *e)
{
	const struct os_sandbox_keep keep = {.other_netns = e->tun_netns || e->underlay_netns};
	int r = os_lock_memory();

	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"memory cannot be locked, keys may get into swap space: %s; systemd: "
			"LimitMEMLOCK=infinity",
			strerror(-r));
	return os_sandbox_enter(&keep, &e->error);
}

static int start_threads(struct engine *e)
{
	sigset_t all, before;
	char name[16] = "weft-plane";
	int r = 0;

	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = engine_helpers_start(e);
	for (uint32_t i = 0; r == 0 && i < e->planes; i++) {
		r = -pthread_create(&e->thread[i], NULL, engine_plane_thread, e->plane[i]);
		if (r < 0)
			break;
		e->threads++;
		if (e->planes > 1)
			(void)snprintf(name, sizeof(name), "weft-plane%u", i);
		(void)pthread_setname_np(e->thread[i], name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static int engine_start(struct engine *e)
{
	const struct config *c = e->config.config;
	int r = check_privilege(c, &e->error);

	if (r == 0)
		r = keep_config(e, c);
	if (r == 0)
		r = start_loop(e);
	if (r == 0)
		r = start_control(e, c);
	if (r == 0)
		r = start_tun(e, c);
	if (r == 0)
		r = engine_underlay_start(e, c);
	if (r == 0)
		r = start_node(e);
	if (r == 0)
		r = start_wishes(e);
	if (r < 0)
		return r;
	start_watches(e, e->config.watch);
	e->config.watch = NULL;
	if (e->config.sandbox)
		r = start_sandbox(e);
	return r < 0 ? r : start_threads(e);
}

int engine_new(const struct engine_config *c, struct engine **ret, struct buf *error)
{
	struct engine *e = w_calloc(1, sizeof(*e));
	int r;

	if (!e) {
		buf_add_str(error, "out of memory\n");
		return -ENOMEM;
	}
	e->config = *c;
	e->started = os_now();
	e->restore_at = e->nat_at = WTIME_NEVER;
	for (uint32_t i = 0; i < ENGINE_PLANES; i++)
		list_init(&e->pending[i]);
	for (uint32_t i = 0; i < ENGINE_HELPERS; i++)
		e->helper[i].event = -1;
	buf_add(&e->warn_files, c->warnings.p, c->warnings.n);
	e->config.warnings = (struct view){0};
	r = engine_start(e);
	if (r < 0) {
		if (e->error.n == 0)
			buf_printf(&e->error, "cannot start: %s\n", strerror(-r));
		buf_add(error, e->error.p, e->error.n);
		engine_free(e);
		return r;
	}
	engine_log_lines(e, OS_WARNING, &e->warn_files);
	engine_log_lines(e, OS_WARNING, &e->warn_start);
	*ret = e;
	return 0;
}

static bool planes_made(const struct engine *e)
{
	for (uint32_t i = 0; i < e->planes; i++)
		if (!e->plane[i] || !e->plane[i]->plane)
			return false;
	return e->planes > 0;
}

/* Lets each that has nothing more to hear end; true when all did. */
static bool planes_stop(struct engine *e)
{
	bool stopped = true;

	for (uint32_t i = 0; i < e->planes; i++) {
		struct engine_plane *t = e->plane[i];

		if (list_empty(&e->pending[i]) || i >= e->threads)
			atomic_store(&t->stop, true);
		if (i >= e->threads && (!atomic_load(&t->stopped) || !ring_empty(&t->down)))
			(void)engine_plane_thread(t);
		else
			engine_plane_wake(t);
		stopped &= atomic_load(&t->stopped) && list_empty(&e->pending[i]);
	}
	return stopped;
}

/* The plane threads empty their rings and end; what they give back is taken meanwhile. One that was
 * never started has messages in its ring all the same: its loop runs here until it has none. */
static void stop_threads(struct engine *e)
{
	if (!e->node || !planes_made(e) || e->plane_done)
		return;
	while (!planes_stop(e)) {
		engine_turn(e);
		(void)usleep(STOP_TURN_US);
	}
	for (uint32_t i = 0; i < e->threads; i++)
		(void)pthread_join(e->thread[i], NULL);
	e->threads = 0;
	engine_helpers_stop(e);
	e->plane_done = true;
	engine_turn(e);
}

static void stop_kernel(struct engine *e)
{
	struct buf errors = {0};

	if (e->netlink && os_netlink_withdraw(e->netlink, &errors) < 0)
		engine_log_lines(e, OS_ERROR, &errors);
	buf_free(&errors);
}

int engine_run(struct engine *e)
{
	struct os_tun_facts tun = os_tun_facts(e->plane[0]->tun);

	os_log_printf(&e->config.log, OS_INFO, "version %s is up, back end %s, TUN %s%s%s",
		e->config.version, e->config.net->name, tun.header ? "with header" : "plain",
		tun.tso ? ", TSO" : "", tun.uso ? ", USO" : "");
	os_loop_on_idle(e->loop, engine_idle, e);
	os_loop_run(e->loop);
	os_loop_on_idle(e->loop, NULL, NULL);
	e->stopping = true;
	node_stop(e->node, os_now());
	engine_turn(e);
	stop_threads(e);
	stop_kernel(e);
	os_log_line(&e->config.log, OS_INFO, "stopped");
	return e->failed;
}

/* Messages that never left: there are some only when memory ran out. */
static void free_messages(struct list *pending)
{
	list_for_each_safe (it, pending) {
		struct engine_pending *q = container_of(it, struct engine_pending, list);

		list_del(it);
		w_free(q);
	}
}

static void free_planes(struct engine *e)
{
	for (uint32_t i = 0; i < e->planes && e->plane[i]; i++)
		engine_plane_done(e->plane[i]);
	engine_sockets_close(e);
	for (uint32_t i = 0; i < e->planes && e->plane[i]; i++) {
		if (e->plane[i]->tun)
			e->config.net->tun_close(e->plane[i]->tun);
		w_free(e->plane[i]);
	}
	node_spis_free(e->spis);
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	e->stopping = true;
	stop_threads(e);
	stop_kernel(e);
	for (uint32_t i = 0; i < ENGINE_PLANES; i++)
		free_messages(&e->pending[i]);
	os_file_watch_free(e->watch);
	os_address_watch_free(e->addresses);
	os_kernel_watch_free(e->kernel_watch);
	os_route_watch_free(e->host_watch);
	os_watch_free(e->runner_watch);
	engine_exit_stop(e);
	engine_underlay_stop(e);
	os_netlink_close(e->netlink);
	node_free(e->node);
	config_free((struct config *)(uintptr_t)e->config.config);
	registry_free((struct registry *)(uintptr_t)e->config.registry);
	free_planes(e);
	os_control_free(e->control);
	for (size_t i = 0; i < sizeof(e->signal) / sizeof(*e->signal); i++)
		os_signal_free(e->signal[i]);
	os_timer_free(e->timer);
	os_wake_free(e->wake);
	os_loop_free(e->loop);
	buf_free(&e->error);
	buf_free(&e->warn_start);
	buf_free(&e->warn_files);
	buf_free(&e->warn_reload);
	buf_free(&e->warn_kernel);
	buf_free(&e->warn_forward);
	buf_free(&e->kernel_error);
	buf_free(&e->warn_exit);
	w_free(e->tun_netns);
	w_free(e->underlay_netns);
	w_free(e->underlay_vrf);
	w_free(e->watched);
	w_free(e);
}
