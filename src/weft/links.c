/* weft links: each link with its security associations, in the manner of `wg show`. */
#include "weft/link.h"

#include <string.h>
#include "weft/text.h"
#include "weft/tool.h"

enum table_colour link_colour(const char *state)
{
	if (strcmp(state, "up") == 0)
		return TABLE_GOOD;
	return strcmp(state, "down") == 0 ? TABLE_BAD : TABLE_WAITING;
}

void link_peer(struct buf *out, const struct value *link)
{
	const struct value *peer = value_get(link, "peer");

	buf_printf(out, "%s/%s", text_string(peer, "organization"), text_string(peer, "name"));
}

void link_endpoint(struct buf *out, const struct value *endpoint)
{
	const char *address = text_string(endpoint, "address");
	char port[TEXT_FIGURE];

	(void)text_count(text_number(endpoint, "port"), port);
	buf_printf(out, strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, port);
}

const char *link_reason(const struct value *link)
{
	const char *s = value_string(value_get(link, "reason"));

	return s ? s : "";
}

static void key_exchanges(struct buf *out, const struct value *sa)
{
	const struct value *list = value_get(sa, "key_exchanges");

	for (size_t i = 0; i < value_count(list); i++) {
		const char *s = value_string(value_at(list, i));

		buf_add_str(out, i ? " + " : ", ");
		table_text(out, s ? s : "-");
	}
}

static void label(struct buf *out, const char *name)
{
	buf_printf(out, "  %-10s ", name);
}

static void show_ike(struct buf *out, const struct value *ike)
{
	char text[TEXT_FIGURE];

	if (value_type(ike) != VALUE_OBJECT)
		return;
	label(out, "ike");
	table_text(out, text_string(ike, "suite"));
	key_exchanges(out, ike);
	buf_add_str(out, ", spi ");
	table_text(out, text_string(ike, "spi_i"));
	buf_add_str(out, " ");
	table_text(out, text_string(ike, "spi_r"));
	buf_printf(out, ", rekey in %s\n", text_duration(text_number(ike, "rekey_in_s"), text));
}

static void show_child(struct buf *out, const struct value *child)
{
	char text[TEXT_FIGURE];

	label(out, "child");
	table_text(out, text_string(child, "suite"));
	key_exchanges(out, child);
	buf_add_str(out, value_bool(value_get(child, "esn")) ? ", esn" : "");
	buf_add_str(out, ", spi in ");
	table_text(out, text_string(child, "spi_in"));
	buf_add_str(out, " out ");
	table_text(out, text_string(child, "spi_out"));
	buf_printf(out, ", rekey in %s\n", text_duration(text_number(child, "rekey_in_s"), text));
}

static void show_path(struct buf *out, const struct value *link)
{
	char text[TEXT_FIGURE];

	label(out, "path");
	buf_printf(out, "mtu %s", text_count(text_number(link, "mtu"), text));
	buf_printf(out, ", rtt %s", text_ms(text_number(link, "rtt_ms"), text));
	buf_printf(out, ", loss %s", text_share(text_number(link, "loss"), text));
	buf_printf(out, ", cost %s", text_count(text_number(link, "cost"), text));
	buf_printf(out, " (rx %s,", text_count(text_number(link, "rxcost"), text));
	buf_printf(out, " tx %s)\n", text_count(text_number(link, "txcost"), text));
}

static void show_transfer(struct buf *out, const struct value *link)
{
	const struct value *rx = value_get(link, "rx"), *tx = value_get(link, "tx");
	char text[TEXT_FIGURE];

	label(out, "transfer");
	buf_printf(out, "%s received", text_bytes(text_number(rx, "bytes"), text));
	buf_printf(out, " (%s packets)", text_count(text_number(rx, "packets"), text));
	buf_printf(out, ", %s sent", text_bytes(text_number(tx, "bytes"), text));
	buf_printf(out, " (%s packets)\n", text_count(text_number(tx, "packets"), text));
	label(out, "loss");
	buf_printf(out, "%s of the peer's packets lost",
		text_count(text_number(link, "lost"), text));
	buf_printf(out, ", %s of its hellos", text_share(text_number(link, "loss_hellos"), text));
	buf_printf(out, "; %s sent by udp_gso\n", text_count(text_number(link, "segmented"), text));
}

static void show_endpoints(struct buf *out, const struct value *link)
{
	struct buf text = {0};

	link_endpoint(&text, value_get(link, "local"));
	buf_add_str(&text, " -> ");
	link_endpoint(&text, value_get(link, "remote"));
	buf_add(&text, "", 1);
	label(out, "endpoints");
	if (text.failed)
		out->failed = true;
	else
		table_text(out, (const char *)text.p);
	buf_add_str(out, value_bool(value_get(link, "behind_nat")) ? ", behind NAT\n" : "\n");
	buf_free(&text);
}

static void show_link(struct buf *out, const struct value *link, bool colour)
{
	const char *state = text_string(link, "state"), *reason = link_reason(link);
	const struct value *children = value_get(link, "children");
	double since = text_number(link, "since_s");
	char text[TEXT_FIGURE];

	table_text(out, text_string(link, "id"));
	buf_add_str(out, ": ");
	table_coloured(out, state, link_colour(state), colour);
	if (since >= 0)
		buf_printf(out, " for %s", text_duration(since, text));
	buf_add_str(out, reason[0] ? ": " : "");
	table_text(out, reason);
	buf_add_str(out, "\n");
	show_endpoints(out, link);
	show_path(out, link);
	show_ike(out, value_get(link, "ike"));
	for (size_t i = 0; i < value_count(children); i++)
		show_child(out, value_at(children, i));
	show_transfer(out, link);
}

static void show(const struct value *reply, struct buf *out, bool colour)
{
	const struct value *links = value_get(reply, "links");

	for (size_t i = 0; i < value_count(links); i++) {
		buf_add_str(out, i ? "\n" : "");
		show_link(out, value_at(links, i), colour);
	}
	if (!value_count(links))
		buf_add_str(out,
			"no links: the registry has no other node of a family that "
			"endpoints have, or peers excludes them\n");
}

int tool_links(struct tool *t)
{
	const struct ctl_request q = {.command = CTL_LINKS};

	return tool_show(t, &q, show);
}
