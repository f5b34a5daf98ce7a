/* Requests of the control socket that need only the node: answered at once, in one line of JSON. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>
#include "ctl/json.h"
#include "ctl/request.h"

static void drops_reply(struct node *n, const struct node_outside *o, struct json *j)
{
	struct ike_stats stats;
	struct babel_stats babel;

	json_object(j, "drops");
	for (int r = 0; r < DROP_COUNT; r++) {
		uint64_t sum = 0;

		for (size_t i = 0; i < o->n_counters; i++)
			sum += o->counters[i].drops[r];
		json_uint(j, drop_name((enum drop_reason)r), sum);
	}
	ike_stats(n->ike, &stats);
	for (int r = 0; r < IKE_DROP_COUNT; r++)
		json_uint(j, ike_drop_name((enum ike_drop)r), stats.drops[r]);
	babel_stats(n->babel, &babel);
	for (int r = 0; r < BABEL_DROP_COUNT; r++)
		json_uint(j, babel_drop_name((enum babel_drop)r), babel.drops[r]);
	json_object_end(j);
}

static bool is_peer(const struct node_link *l, const char *argument)
{
	const char *slash = strchr(argument, '/');

	if (!slash)
		return strcmp(l->name, argument) == 0;
	return strlen(l->organization) == (size_t)(slash - argument) &&
		memcmp(l->organization, argument, (size_t)(slash - argument)) == 0 &&
		strcmp(l->name, slash + 1) == 0;
}

static int run_on(struct node *n, struct node_link *l, enum ctl_command c, wtime now)
{
	int err;

	switch (c) {
	case CTL_REKEY:
		err = ike_conn_rekey_ike(n->ike, l->conn, now);
		if (err == 0 || err == -EBUSY)
			err = ike_conn_rekey_child(n->ike, l->conn, now);
		return err == -EBUSY ? 0 : err;
	case CTL_DOWN:
		l->admin_down = true;
		return ike_conn_down(n->ike, l->conn, now);
	case CTL_UP:
		l->admin_down = false;
		l->resolve_at = now;
		if (l->excluded)
			return 0; /* it comes up when its way is another one */
		err = ike_conn_up(n->ike, l->conn, now);
		return err == -EDESTADDRREQ
			? 0
			: err; /* then the peer initiates, or a name is looked up */
	default:
		return -EINVAL;
	}
}

/* rekey, down, up: on every link with the peer; how many it was done on. */
static void peer_reply(struct node *n, const struct ctl_request *r, wtime now, struct json *j)
{
	uint64_t found = 0, done = 0;

	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (!is_peer(l, r->argument))
			continue;
		found++;
		done += run_on(n, l, r->command, now) == 0;
	}
	node_ike_events(n, now);
	if (!found)
		json_string(j, "error",
			"no such peer: give a name, or organization/name, as `weft links` shows "
			"it");
	else if (!done && r->command == CTL_REKEY)
		json_string(j, "error", "the peer is not up: nothing to rekey");
	else if (!done)
		json_string(j, "error", "that could not be done on any link of the peer");
	json_uint(j, "links", done);
}

static void no_such_offload(struct json *j)
{
	struct buf text = {0};

	buf_add_str(&text, "no such switch: one of ");
	conf_offload_names(&text, ", ");
	buf_add_str(&text, "; a space; on, off or auto");
	buf_add(&text, "", 1);
	json_string(j, "error", text.failed ? "no such switch" : (const char *)text.p);
	buf_free(&text);
}

uint32_t node_command(struct node *n, struct view request, const struct node_outside *o, wtime now,
	struct buf *reply)
{
	struct json j = json_to(reply);
	struct ctl_request r;
	struct buf error = {0};

	if (ctl_request_parse(request, &r, &error) < 0) {
		ctl_reply_error(reply, error.p ? (const char *)error.p : "out of memory");
		buf_free(&error);
		return 0;
	}
	buf_free(&error);
	if (r.command == CTL_TRACE)
		return node_trace(n, r.argument, now, reply);
	if (r.command == CTL_PING)
		return node_ping(n, r.argument, now, reply);
	json_object(&j, NULL);
	json_int(&j, "schema", 1);
	switch (r.command) {
	case CTL_STATUS:
		node_status_reply(n, o, now, &j);
		break;
	case CTL_LINKS:
		node_links_reply(n, now, &j);
		break;
	case CTL_ROUTES:
		node_routes_reply(n, &r, now, &j);
		break;
	case CTL_NEIGHBOURS:
		node_neighbours_reply(n, &j);
		break;
	case CTL_POLICIES:
		node_policies_reply(n, &j);
		break;
	case CTL_DROPS:
		drops_reply(n, o, &j);
		break;
	case CTL_REKEY:
	case CTL_DOWN:
	case CTL_UP:
		peer_reply(n, &r, now, &j);
		break;
	case CTL_VERSION:
		json_string(&j, "version", n->version);
		break;
	case CTL_LOG: /* a level that exists is the outside's business */
		json_string(&j, "error", "no such level: error, warning, info or debug");
		break;
	case CTL_OFFLOAD: /* one that exists likewise */
		no_such_offload(&j);
		break;
	case CTL_TRACE:
	case CTL_PING:
	case CTL_RELOAD:
	case CTL_COMMAND_COUNT:
		json_string(&j, "error", "this command is not the node's");
		break;
	}
	json_object_end(&j);
	buf_add(reply, "\n", 1);
	return 0;
}
