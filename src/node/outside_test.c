/* Requests of the control socket that are not the node's to answer. */
#include "node/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct node_request parsed(const char *text)
{
	struct node_request q;

	node_request_parse(view_of(text, strlen(text)), &q);
	return q;
}

static void a_switch_and_where_it_goes(void **state)
{
	static const struct {
		const char *argument;
		enum conf_offload offload;
		enum conf_switch to;
	} all[] = {{"udp_gso off", CONF_UDP_GSO, CONF_OFF}, {"udp_gro on", CONF_UDP_GRO, CONF_ON},
		{"merge_udp auto", CONF_MERGE_UDP, CONF_AUTO}};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct buf text = {0};
		struct node_request q;

		buf_printf(&text, "{\"command\": \"offload\", \"argument\": \"%s\"}",
			all[i].argument);
		node_request_parse(buf_view(&text), &q);
		buf_free(&text);
		assert_int_equal(q.type, NODE_REQUEST_OFFLOAD);
		assert_int_equal(q.offload, all[i].offload);
		assert_int_equal(q.to, all[i].to);
	}
}

/* What is no such switch, or goes nowhere, is the node's to refuse. */
static void other_words_are_no_switch(void **state)
{
	static const char *const all[] = {"", " ", "udp_gso", "udp_gso ", "udp_gso  off", " off",
		"tun_gso off", "udp_gso maybe", "udp_gso off ", "UDP_GSO off"};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct buf text = {0};
		struct node_request q;

		buf_printf(&text, "{\"command\": \"offload\", \"argument\": \"%s\"}", all[i]);
		node_request_parse(buf_view(&text), &q);
		buf_free(&text);
		assert_int_equal(q.type, NODE_REQUEST_COMMAND);
	}
}

static void reload_and_log_bring_what_they_say(void **state)
{
	struct node_request q = parsed("{\"command\": \"reload\", \"force\": true}");

	(void)state;
	assert_int_equal(q.type, NODE_REQUEST_RELOAD);
	assert_true(q.force && !q.dry_run);
	q = parsed("{\"command\": \"log\", \"argument\": \"debug\"}");
	assert_int_equal(q.type, NODE_REQUEST_LOG);
	assert_int_equal(q.level, CONF_LOG_DEBUG);
	assert_int_equal(parsed("{\"command\": \"log\", \"argument\": \"loud\"}").type,
		NODE_REQUEST_COMMAND);
	assert_int_equal(parsed("{\"command\": \"status\"}").type, NODE_REQUEST_COMMAND);
	assert_int_equal(parsed("{").type, NODE_REQUEST_COMMAND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_and_where_it_goes),
		cmocka_unit_test(other_words_are_no_switch),
		cmocka_unit_test(reload_and_log_bring_what_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
