/* What the engine, which knows neither the tunnel protocol nor the control protocol, needs of both.
 */
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"
#include "ctl/request.h"
#include "node/node_priv.h"

int node_tunnel_new(uint32_t capacity, struct plane_config *ret)
{
	struct esp_table *table;
	int r = esp_table_new(capacity, &table);

	if (r < 0)
		return r;
	ret->ops = esp_ops();
	ret->table = table;
	return 0;
}

void node_tunnel_free(struct plane_config *c)
{
	esp_table_free(c->table);
	c->table = NULL;
}

/* "udp_gso off" */
static bool offload_parse(const char *argument, struct node_request *ret)
{
	static const char *const words[] =
		{[CONF_AUTO] = "auto", [CONF_ON] = "on", [CONF_OFF] = "off"};
	const char *space = strchr(argument, ' ');
	size_t n = space ? (size_t)(space - argument) : 0;
	char name[CTL_FROM];

	if (n == 0 || n >= sizeof(name))
		return false;
	memcpy(name, argument, n);
	name[n] = 0;
	for (unsigned int i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(space + 1, words[i]) == 0) {
			ret->to = (enum conf_switch)i;
			return conf_offload_parse(name, &ret->offload) == 0;
		}
	return false;
}

void node_request_parse(struct view request, struct node_request *ret)
{
	struct buf error = {0};
	struct ctl_request r;

	*ret = (struct node_request){.type = NODE_REQUEST_COMMAND};
	if (ctl_request_parse(request, &r, &error) == 0) {
		if (r.command == CTL_RELOAD) {
			ret->type = NODE_REQUEST_RELOAD;
			ret->dry_run = r.dry_run;
			ret->force = r.force;
		} else if (r.command == CTL_LOG && conf_log_parse(r.argument, &ret->level) == 0) {
			ret->type = NODE_REQUEST_LOG;
		} else if (r.command == CTL_OFFLOAD && offload_parse(r.argument, ret)) {
			ret->type = NODE_REQUEST_OFFLOAD;
		}
	}
	buf_free(&error);
}

/* A list of strings from lines. */
static void lines(struct json *j, const char *key, struct view text)
{
	struct cur c = cur_view(text);
	char line[CTL_ARGUMENT * 2];

	json_array(j, key);
	while (c.n > 0) {
		const uint8_t *end = memchr(c.p, '\n', c.n);
		struct view v = cur_take(&c, end ? (size_t)(end - c.p) : c.n);
		size_t n = v.n < sizeof(line) - 1 ? v.n : sizeof(line) - 1;

		memcpy(line, v.p, n);
		line[n] = 0;
		json_string(j, NULL, line);
		if (end)
			cur_skip(&c, 1);
	}
	json_array_end(j);
}

void node_reply_reload(struct buf *reply, struct view changes, struct view warnings)
{
	struct json j = json_to(reply);

	json_object(&j, NULL);
	json_int(&j, "schema", 1);
	lines(&j, "changes", changes);
	lines(&j, "warnings", warnings);
	json_object_end(&j);
	buf_add_str(reply, "\n");
}

void node_reply_done(struct buf *reply, const char *error)
{
	struct json j = json_to(reply);

	if (error) {
		ctl_reply_error(reply, error);
		return;
	}
	json_object(&j, NULL);
	json_int(&j, "schema", 1);
	json_object_end(&j);
	buf_add_str(reply, "\n");
}
