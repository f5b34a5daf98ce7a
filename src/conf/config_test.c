/* weft.yaml: every key is read and printed back, every mistake is one line at its place. */
#include "conf/conf_test.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"
#include "base/rng.h"

#define BASE                                                                                       \
	"node: {organization: acme, name: sin1, key: /etc/weft/key.pem}\n"                         \
	"registry: /etc/weft/registry.json\n"                                                      \
	"endpoints:\n"                                                                             \
	"  - {serial: \"0\", family: ip4}\n"

/* Parses; NULL and the errors, or a configuration and none. */
static struct config *parse(const char *text, struct conf_errors *errors)
{
	struct config *c = NULL;
	int err = config_parse(text_view(text), "weft.yaml", &c, errors);

	if (err < 0) {
		assert_int_equal(err, -EINVAL);
		assert_null(c);
		assert_true(errors->count > 0);
		return NULL;
	}
	assert_int_equal(errors->count, 0);
	return c;
}

static struct config *parse_well(const char *text)
{
	struct conf_errors e = {0};
	struct config *c = parse(text, &e);

	if (!c)
		fail_msg("refused:\n%s", error_text(&e));
	conf_errors_free(&e);
	return c;
}

static const char every_key[] =
	"node: {organization: acme, name: sin1, key: /etc/weft/key.pem,\n"
	"       router_id: \"02:00:5e:10:00:00:00:01\", transit: false}\n"
	"registry: /etc/weft/registry.json\n"
	"endpoints:\n"
	"  - {serial: \"0\", family: ip4, address: 203.0.113.1, port: 13000, interface: eth0,\n"
	"     fwmark: 0x52, updown: /etc/weft/updown}\n"
	"  - {serial: \"1\", family: ip6, address: \"2001:db8::1\", port: 13001}\n"
	"peers: {include: [\"*\", \"acme/f?a*\"], exclude: [lax1]}\n"
	"tun: {name: weft7, mtu: 1380, addresses: [\"fd00:1::1/128\", 10.66.0.1/32], netns: "
	"inner}\n"
	"underlay: {exclude_interfaces: [docker0, \"br \\\"x\\\"\"], fwmark: 0x51/0xff, netns: "
	"outer,\n"
	"           vrf: blue, dscp: 46}\n"
	"announce: [fd00:1::/64, 10.1.0.0/16, {prefix: \"::/0\", source: \"2001:db8::/48\"}]\n"
	"static_routes: [{prefix: 10.9.0.0/16, node: fra1}, {prefix: \"0.0.0.0/0\", node: "
	"acme/lax1}]\n"
	"routing: {table: 300, default_table: 301, protocol: 158, rule_priority: 5300}\n"
	"ike: {post_quantum: require, lifetime: 90m, child_lifetime: 7500ms, dpd: 3s}\n"
	"plane: {threads: 3, helpers: 2, crypto: ipsec-mb, offload: {tun_gso: on, udp_gso: off, "
	"udp_gro: "
	"auto, tun_tso: on, tun_uso: off, merge_tcp: off, merge_udp: on}, aqm: off}\n"
	"control: {socket: /tmp/sock, group: adm}\n"
	"log: debug\n";

static void every_key_is_read(void **state)
{
	struct config *c = parse_well(every_key);

	(void)state;
	assert_string_equal(c->node.organization, "acme");
	assert_string_equal(c->node.name, "sin1");
	assert_string_equal(c->node.key, "/etc/weft/key.pem");
	assert_true(c->node.has_router_id);
	assert_memory_equal(c->node.router_id, "\x02\x00\x5e\x10\x00\x00\x00\x01", 8);
	assert_false(c->node.transit);
	assert_string_equal(c->registry, "/etc/weft/registry.json");
	assert_int_equal(c->key_at.line, 1);
	assert_int_equal(c->key_at.column, 45);
	assert_int_equal(c->registry_at.line, 3);
	config_free(c);
}

static void endpoints_are_read(void **state)
{
	char address[ADDR_TEXT];
	struct config *c = parse_well(every_key);

	(void)state;
	assert_int_equal(c->endpoint_count, 2);
	assert_string_equal(c->endpoint[0].serial, "0");
	assert_int_equal(c->endpoint[0].family, IP4);
	assert_string_equal(ipaddr_format(&c->endpoint[0].address, address), "203.0.113.1");
	assert_int_equal(c->endpoint[0].port, 13000);
	assert_string_equal(c->endpoint[0].interface, "eth0");
	assert_int_equal(c->endpoint[0].fwmark, 0x52);
	assert_string_equal(c->endpoint[0].updown, "/etc/weft/updown");
	assert_int_equal(c->endpoint[1].family, IP6);
	assert_int_equal(c->endpoint[1].port, 13001);
	assert_null(c->endpoint[1].interface);
	assert_int_equal(c->peers.include_count, 2);
	assert_string_equal(c->peers.include[1], "acme/f?a*");
	assert_int_equal(c->peers.exclude_count, 1);
	assert_string_equal(c->peers.exclude[0], "lax1");
	config_free(c);
}

static void interfaces_and_routes_are_read(void **state)
{
	char text[PREFIX_TEXT];
	struct config *c = parse_well(every_key);

	(void)state;
	assert_string_equal(c->tun.name, "weft7");
	assert_int_equal(c->tun.mtu, 1380);
	assert_int_equal(c->tun.address_count, 2);
	assert_int_equal(c->tun.address[0].len, 128);
	assert_int_equal(c->tun.address[1].ip.family, IP4);
	assert_string_equal(c->tun.netns, "inner");
	assert_int_equal(c->underlay.exclude_interface_count, 2);
	assert_string_equal(c->underlay.exclude_interface[1], "br \"x\"");
	assert_int_equal(c->underlay.fwmark, 0x51);
	assert_int_equal(c->underlay.fwmask, 0xff);
	assert_false(c->underlay.copy_dscp);
	assert_int_equal(c->underlay.dscp, 46);
	assert_string_equal(c->underlay.netns, "outer");
	assert_string_equal(c->underlay.vrf, "blue");
	assert_int_equal(c->announce_count, 3);
	assert_string_equal(prefix_format(&c->announce[1].destination, text), "10.1.0.0/16");
	assert_int_equal(c->announce[1].source.len, 0);
	assert_string_equal(prefix_format(&c->announce[2].source, text), "2001:db8::/48");
	assert_int_equal(c->static_route_count, 2);
	assert_null(c->static_route[0].organization);
	assert_string_equal(c->static_route[0].node, "fra1");
	assert_string_equal(c->static_route[1].organization, "acme");
	assert_string_equal(c->static_route[1].node, "lax1");
	config_free(c);
}

static void the_rest_is_read(void **state)
{
	struct config *c = parse_well(every_key);

	(void)state;
	assert_int_equal(c->routing.table, 300);
	assert_int_equal(c->routing.default_table, 301);
	assert_int_equal(c->routing.protocol, 158);
	assert_int_equal(c->routing.rule_priority, 5300);
	assert_int_equal(c->ike.post_quantum, CONF_PQ_REQUIRE);
	assert_int_equal(c->ike.lifetime_us, INT64_C(5400000000));
	assert_int_equal(c->ike.dpd_us, 3000000);
	assert_int_equal(c->plane.crypto, CONF_CRYPTO_IPSEC_MB);
	assert_int_equal(c->plane.tun_gso, CONF_ON);
	assert_int_equal(c->plane.aqm, CONF_OFF);
	assert_int_equal(c->plane.threads, 3);
	assert_int_equal(c->plane.helpers, 2);
	assert_int_equal(c->plane.offload[CONF_UDP_GSO], CONF_OFF);
	assert_int_equal(c->plane.offload[CONF_UDP_GRO], CONF_AUTO);
	assert_string_equal(c->control.socket, "/tmp/sock");
	assert_string_equal(c->control.group, "adm");
	assert_int_equal(c->log, CONF_LOG_DEBUG);
	assert_false(c->ranet);
	config_free(c);
}

static unsigned int offloads_of(const char *offload)
{
	char text[1024];
	struct config *c;
	unsigned int on;

	assert_in_range(snprintf(text, sizeof(text), BASE "plane: {offload: {%s}}\n", offload), 1,
		sizeof(text) - 1);
	c = parse_well(text);
	on = conf_offloads(c);
	config_free(c);
	return on;
}

/* Each alone, and tun_gso for all four of the TUN whatever they say themselves. */
static void offloads_are_switched_off(void **state)
{
	const unsigned int all = (1U << CONF_OFFLOADS) - 1;
	const unsigned int udp = conf_offload_bit(CONF_UDP_GSO) | conf_offload_bit(CONF_UDP_GRO);
	enum conf_offload o = CONF_OFFLOADS;
	struct buf names = {0};

	(void)state;
	conf_offload_names(&names, ", ");
	buf_add(&names, "", 1);
	assert_string_equal((const char *)names.p,
		"udp_gso, udp_gro, tun_tso, tun_uso, merge_tcp, merge_udp");
	buf_free(&names);
	assert_int_equal(offloads_of(""), all);
	for (unsigned int i = 0; i < CONF_OFFLOADS; i++) {
		const char *name = conf_offload_name((enum conf_offload)i);
		char text[32];

		assert_int_equal(conf_offload_parse(name, &o), 0);
		assert_int_equal(o, i);
		snprintf(text, sizeof(text), "%s: off", name);
		assert_int_equal(offloads_of(text), all & ~conf_offload_bit(o));
	}
	assert_int_equal(offloads_of("tun_gso: off, merge_tcp: on"), udp);
	assert_int_equal(offloads_of("tun_gso: off, udp_gro: off"), conf_offload_bit(CONF_UDP_GSO));
	assert_int_equal(conf_offload_parse("tun_gso", &o), -EINVAL);
}

static void the_outer_dscp_may_be_copied(void **state)
{
	struct config *c = parse_well(BASE "underlay: {dscp: copy}\n");

	(void)state;
	assert_true(c->underlay.copy_dscp);
	assert_int_equal(c->underlay.dscp, 0);
	config_free(c);
}

static void defaults_are_the_manuals(void **state)
{
	struct config *c = parse_well(BASE);

	(void)state;
	assert_true(c->node.transit);
	assert_false(c->node.has_router_id);
	assert_int_equal(c->endpoint[0].port, 13000);
	assert_int_equal(c->endpoint[0].address.family, IP_NONE);
	assert_string_equal(c->tun.name, "weft0");
	assert_int_equal(c->tun.mtu, 1400);
	assert_int_equal(c->underlay.fwmark, 0x51);
	assert_int_equal(c->underlay.fwmask, 0xff);
	assert_false(c->underlay.copy_dscp);
	assert_int_equal(c->underlay.dscp, 0);
	assert_int_equal(c->routing.table, 252);
	assert_int_equal(c->routing.default_table, 253);
	assert_int_equal(c->routing.protocol, 157);
	assert_int_equal(c->routing.rule_priority, 5200);
	assert_int_equal(c->ike.post_quantum, CONF_PQ_PREFER);
	assert_int_equal(c->plane.crypto, CONF_CRYPTO_AUTO);
	assert_int_equal(c->ike.lifetime_us, INT64_C(14400000000));
	assert_int_equal(c->ike.child_lifetime_us, INT64_C(3600000000));
	assert_int_equal(c->ike.dpd_us, 10000000);
	assert_string_equal(c->control.socket, "/run/weft/weft.sock");
	assert_string_equal(c->control.group, "weft");
	assert_int_equal(c->log, CONF_LOG_INFO);
	config_free(c);
}

static char *printed(const char *text)
{
	struct config *c = parse_well(text);
	struct buf out = {0};

	assert_int_equal(config_print(c, &out), 0);
	config_free(c);
	buf_add(&out, "", 1);
	assert_false(out.failed);
	return (char *)out.p;
}

static void printing_reads_back_equal(void **state)
{
	static const char *const texts[] = {every_key, BASE, BASE "peers: {exclude: [a]}\n",
		BASE "peers: {include: []}\nlog: error\n",
		BASE "tun: {addresses: []}\nike: {dpd: 1500ms}\n", BASE "underlay: {dscp: copy}\n",
		"node: {organization: \"a\\\"\\\\\xc3\xbc\", name: 'it''s', key: k}\nregistry: "
		"\"r\\tx\"\n"
		"endpoints: [{serial: 'x: y', family: ip6, fwmark: 7}]\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *once = printed(texts[i]), *twice = printed(once);

		assert_string_equal(once, twice);
		w_free(once);
		w_free(twice);
	}
}

static void null_is_the_default(void **state)
{
	struct config *c = parse_well(
		BASE "tun: {name: null, netns: null}\n"
		     "underlay: {netns: ~, vrf: null}\npeers: null\nlog: null\n");

	(void)state;
	assert_string_equal(c->tun.name, "weft0");
	assert_null(c->tun.netns);
	assert_null(c->underlay.netns);
	assert_null(c->underlay.vrf);
	assert_int_equal(c->log, CONF_LOG_INFO);
	config_free(c);
}

static void json_is_yaml(void **state)
{
	struct config *c = parse_well(
		"{\"node\": {\"organization\": \"acme\", \"name\": \"sin1\",\n"
		"\t\"key\": \"k\", \"router_id\": \"auto\"},\n"
		"\t\"registry\": \"r\",\n"
		"\t\"endpoints\": [{\"serial\": \"0\", \"family\": \"ip6\"}]}\n");

	(void)state;
	assert_int_equal(c->endpoint[0].family, IP6);
	config_free(c);
}

/* ---- mistakes ---- */

struct mistake {
	const char *text;  /* whole, or after BASE when it is meant to be appended */
	const char *begin; /* "weft.yaml:" and this */
	const char *part;
};

static void expect_mistake(const char *before, const struct mistake *m)
{
	char begin[64];
	struct buf text = {0};
	struct conf_errors e = {0};
	struct config *c;

	buf_printf(&text, "%s%s", before, m->text);
	c = parse((const char *)text.p, &e);
	if (c)
		fail_msg("taken without a complaint: %s", m->text);
	(void)snprintf(begin, sizeof(begin), "weft.yaml:%s", m->begin);
	expect_one_line(&e, begin, m->part);
	conf_errors_free(&e);
	buf_free(&text);
}

static void mistakes_in_values(void **state)
{
	static const struct mistake m[] = {
		{"log: loud\n", "5:6: ", "error, warning, info or debug"},
		{"log: [info]\n", "5:7: ", "must be a text"},
		{"log:\n", "5:1: ", "log has no value"},
		{"tun: {mtu: 1279}\n", "5:12: ", "from 1280 to 65000"},
		{"tun: {mtu: 1400x}\n", "5:12: ", "\"1400x\" is no whole number"},
		{"tun: {mtu: -1}\n", "5:12: ", "no whole number"},
		{"tun: {mtu: 99999999999999999999999}\n", "5:12: ", "no whole number"},
		{"tun: {mtu: }\n", "5:7: ", "mtu has no value"},
		{"tun: {}\nlog: x\n", "6:6: ", "log must be"},
		{"tun: 5\n", "5:6: ", "tun must be a mapping"},
		{"tun: {name: a/b}\n", "5:13: ", "no interface name"},
		{"tun: {name: sixteen-letters-}\n", "5:13: ", "at most 15"},
		{"tun: {name: lo}\n", "5:13: ", "reserved"},
		{"tun: {addresses: {}}\n", "5:7: ", "tun.addresses must be a list"},
		{"tun: {addresses: [10.0.0.1/33]}\n", "5:19: ", "as 10.66.0.1/32"},
		{"tun: {addresses: [10.0.0.1/]}\n", "5:19: ", "as 10.66.0.1/32"},
		{"tun: {addresses: [fe80::1/64]}\n", "5:19: ", "link-local"},
		{"tun: {addresses: [10.0.0.1, 10.0.0.1/32]}\n", "5:29: ", "twice"},
		{"ike: {lifetime: 3600}\n", "5:17: ", "a number and a unit"},
		{"ike: {lifetime: 1s}\n", "5:17: ", "from 5s to 604800s"},
		{"ike: {lifetime: 99999999999d}\n", "5:17: ", "no duration"},
		{"ike: {dpd: 1.5s}\n", "5:12: ", "no duration"},
		{"plane: {crypto: none}\n", "5:17: ", "auto, openssl or ipsec-mb"},
		{"ike: {post_quantum: yes}\n", "5:21: ", "prefer, require or off"},
		{"plane: {threads: 17}\n", "5:18: ", "from 1 to 16"},
		{"plane: {threads: 0}\n", "5:18: ", "from 1 to 16"},
		{"plane: {helpers: 17}\n", "5:18: ", "from 0 to 16"},
		{"plane: {helpers: some}\n", "5:18: ", "from 0 to 16"},
		{"plane: {aqm: 1}\n", "5:14: ", "auto, on or off"},
		{"plane: {offload: {tun_gso: yes}}\n", "5:28: ", "auto, on or off"},
		{"routing: {table: 0}\n", "5:18: ", "from 1 to 4294967295"},
		{"routing: {table: 253, default_table: 9}\n", "5:18: ", "belongs to the system"},
		{"routing: {default_table: 254}\n", "5:26: ", "belongs to the system"},
		{"routing: {table: 9, default_table: 9}\n", "5:11: ", "must differ"},
		{"routing: {protocol: 4}\n", "5:21: ", "from 5 to 255"},
		{"underlay: {fwmark: 0x100/0xff}\n", "5:20: ", "as 0x51/0xff"},
		{"underlay: {fwmark: 0}\n", "5:20: ", "as 0x51/0xff"},
		{"underlay: {dscp: 64}\n", "5:18: ", "copy or 0 to 63, not \"64\""},
		{"underlay: {dscp: ef}\n", "5:18: ", "copy or 0 to 63, not \"ef\""},
		{"underlay: {exclude_interfaces: [\"\"]}\n", "5:33: ", "is empty"},
		{"control: {socket: \"\"}\n", "5:19: ", "is empty"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		expect_mistake(BASE, &m[i]);
}

static void mistakes_in_routes(void **state)
{
	static const struct mistake m[] = {
		{"announce: [10.1.0.0/8]\n", "5:12: ", "the prefix is 10.0.0.0/8"},
		{"announce: [10.1.0.0/x]\n", "5:12: ", "is no prefix"},
		{"announce: [fe80::/64]\n", "5:12: ", "cannot be routed"},
		{"announce: [ff00::/8]\n", "5:12: ", "cannot be routed"},
		{"announce: [127.0.0.0/8]\n", "5:12: ", "cannot be routed"},
		{"announce: 10.0.0.0/8\n", "5:11: ", "must be a list"},
		{"announce: [10.0.0.0/8, 10.0.0.0/8]\n", "5:24: ", "twice"},
		{"announce: [{prefix: 10.0.0.0/8, source: \"::/1\"}]\n", "5:13: ", "one family"},
		{"announce: [{source: \"::/0\"}]\n", "5:13: ", "lacks prefix"},
		{"static_routes: [{prefix: 10.0.0.0/8}]\n", "5:18: ", "lacks node"},
		{"static_routes: [{prefix: 10.0.0.0/8, node: a/}]\n",
			"5:44: ", "organization/name"},
		{"static_routes: [{prefix: 10.0.0.0/8, node: /a}]\n",
			"5:44: ", "organization/name"},
		{"static_routes: [{prefix: 10.0.0.0/8, node: a}, {prefix: 10.0.0.0/8, node: b}]\n",
			"5:49: ", "same prefix"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		expect_mistake(BASE, &m[i]);
}

static void mistakes_in_form(void **state)
{
	static const struct mistake m[] = {
		{"bogus: 1\n",
			"5:1: ", "unknown key \"bogus\" in the configuration; known: node, "},
		{"tun: {nmae: x}\n", "5:7: ", "unknown key \"nmae\" in tun; known: name, mtu"},
		{"plane: {offload: {gso: on}}\n", "5:19: ", "known: tun_gso, udp_gso, udp_gro"},
		{"log: info\nlog: debug\n", "6:1: ", "given twice"},
		{"tun: {mtu: 1400, mtu: 1300}\n", "5:18: ", "given twice"},
		{"log: &a info\n", "5:", "anchors and aliases"},
		{"log: *a\n", "5:", "anchors and aliases"},
		{"log: !!str info\n", "5:", "tags"},
		{"log: !x\n", "5:", "tags"},
		{"<<: {log: info}\n", "5:1: ", "unknown key \"<<\""},
		{"? [a, b]\n: c\n", "5:4: ", "a key of the configuration is no text"},
		{"---\nnode: 1\n", "6:1: ", "a second document"},
		{"log: [info\n", "6:1: ", "syntax"},
		{" log: info\n", "5:", "syntax"},
		{"\tlog: info\n", "5:1: ", "syntax"},
		{"log: @x\n", "5:6: ", "syntax"},
		{"log: \xff\xfe\n", "5:6: ", "not UTF-8"},
		{"# \xed\xa0\x80\n", "5:3: ", "not UTF-8"},
		{"# \xc3\xbc \xc0\xaf\n", "5:5: ", "not UTF-8"},
		{"log: \x1b[31m\n", "5:6: ", "control character"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		expect_mistake(BASE, &m[i]);
}

static void mistakes_in_identity(void **state)
{
	static const struct mistake m[] = {
		{"", "1:1: ", "no YAML or JSON document"},
		{"# nothing\n", "1:1: ", "no YAML or JSON document"},
		{"text\n", "1:1: ", "must be a mapping"},
		{"[1]\n", "1:2: ", "must be a mapping"},
		{"node: {organization: a, name: b}\nregistry: r\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:8: ", "node lacks key"},
		{"node: {organization: a, name: b, key: null}\nregistry: r\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:34: ", "key has no value"},
		{"node: {organization: a, name: b, key: k}\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:1: ", "lacks registry"},
		{"node: {organization: a, name: b, key: k, router_id: \"1\"}\nregistry: r\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:53: ", "eight bytes"},
		{"node: {organization: a, name: b, key: k, transit: \"true\"}\nregistry: r\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:51: ", "true or false"},
		{"node: {organization: \"\", name: b, key: k}\nregistry: r\n"
		 "endpoints: [{serial: \"0\", family: ip4}]\n",
			"1:22: ", "is empty"},
		{"node: {organization: a, name: b, key: k}\nregistry: r\nendpoints: []\n",
			"3:1: ", "needs one at least"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		expect_mistake("", &m[i]);
}

static void mistakes_in_endpoints(void **state)
{
	static const char before[] =
		"node: {organization: acme, name: sin1, key: k}\nregistry: r\n";
	static const struct mistake m[] = {
		{"endpoints: [{family: ip4}]\n", "3:14: ", "lacks serial"},
		{"endpoints: [{serial: a}]\n", "3:14: ", "lacks family"},
		{"endpoints: [{serial: a, family: ipv4}]\n", "3:33: ", "ip4 or ip6"},
		{"endpoints: [{serial: a, family: ip4, port: 0}]\n", "3:44: ", "from 1 to 65535"},
		{"endpoints: [{serial: a, family: ip4, port: 65536}]\n",
			"3:44: ", "from 1 to 65535"},
		{"endpoints: [{serial: a, family: ip4, address: host}]\n",
			"3:47: ", "no IPv4 or IPv6"},
		{"endpoints: [{serial: a, family: ip4, address: \"::1\"}]\n",
			"3:14: ", "not of its family"},
		{"endpoints: [{serial: a, family: ip4}, {serial: a, family: ip6}]\n",
			"3:40: ", "twice"},
		{"endpoints: [{serial: a, family: ip4}, {serial: b, family: ip4}]\n",
			"3:40: ", "both want port 13000"},
		{"endpoints: [{serial: a, family: ip4},\n  {serial: b, family: ip4, address: "
		 "10.0.0.1}]\n",
			"4:4: ", "both want port 13000"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		expect_mistake(before, &m[i]);
}

static void several_mistakes_are_all_told(void **state)
{
	struct conf_errors e = {0};

	(void)state;
	assert_null(parse(BASE "log: x\ntun: {mtu: 1}\nbogus: 1\n", &e));
	assert_int_equal(e.count, 3);
	assert_int_equal(count_lines(error_text(&e)), 3);
	conf_errors_free(&e);
}

static void endless_mistakes_are_cut(void **state)
{
	struct conf_errors e = {0};
	struct buf text = {0};

	(void)state;
	buf_add_str(&text, BASE);
	for (int i = 0; i < 5000; i++)
		buf_printf(&text, "k%d: 1\n", i);
	buf_add(&text, "", 1);
	assert_null(parse((const char *)text.p, &e));
	assert_int_equal(e.count, 5000);
	assert_true(count_lines(error_text(&e)) == 101);
	buf_free(&text);
	conf_errors_free(&e);
}

/* ---- secrets ---- */

static void a_pasted_key_is_never_shown(void **state)
{
	static const char *const texts[] = {
		"node: {organization: a, name: b, key: \"%s\"}\n",
		"node: {organization: a, name: b, key: %s}\n",
		"node:\n  organization: a\n  name: b\n  key: |\n    -----BEGIN PRIVATE KEY-----\n  "
		"  %s\n"
		"    -----END PRIVATE KEY-----\n",
		"node:\n  organization: a\n  name: b\n  key: -----BEGIN PRIVATE KEY-----\n    %s\n",
		"node:\n  organization: a\n  name: b\n  key: -----BEGIN PRIVATE KEY-----\n%s\n",
		"node:\n  %s: b\n",
		"%s: 1\n",
		"%s\n",
		"node: {organization: a, name: b, key: k, router_id: \"%s\", transit: \"%s\"}\n",
		"log: \"%s\"\ntun: {mtu: %s, name: \"%s\", addresses: [%s]}\n",
		"ike: {lifetime: %s}\nunderlay: {fwmark: %s}\nannounce: [%s]\nendpoints: "
		"[{address: %s}]\n",
		"log: *%s\n",
		"log: &%s x\n",
		"log: !%s x\n",
		"log: @%s\n",
		"{%s",
		"\"%s",
		"? %s\n? %s\n",
	};
	static const char *const secrets[] = {SECRET_PKCS8, SECRET_RAW, SECRET_HEX};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t k = 0; k < sizeof(secrets) / sizeof(secrets[0]); k++) {
			const char *s = secrets[k];
			struct conf_errors e = {0};
			struct config *c = NULL;
			char part[13] = "";

			memcpy(part, s + 30, 12);
			(void)snprintf(text, sizeof(text), texts[i], s, s, s, s);
			assert_int_equal(config_parse(text_view(text), "f", &c, &e), -EINVAL);
			if (strstr(error_text(&e), part))
				fail_msg("shown:\n%s", error_text(&e));
			conf_errors_free(&e);
		}
}

static void a_pasted_key_is_named(void **state)
{
	static const struct mistake m = {"node: {organization: a, name: b, key: \"" SECRET_RAW
					 "\"}\nregistry: r\n"
					 "endpoints: [{serial: \"0\", family: ip4}]\n",
		"1:39: ", "write the path of the file"};
	static const char paths[] = "node: {organization: a, name: b, key: "
				    "/etc/weft/a/quite/long/path/without/any/dot/in/it}\n"
				    "registry: r\nendpoints: [{serial: \"0\", family: ip4}]\n";

	(void)state;
	expect_mistake("", &m);
	config_free(parse_well(paths));
}

/* ---- hostile sizes ---- */

static void nesting_is_bounded(void **state)
{
	enum { DEEP = 100000 };
	char *text = w_alloc(DEEP + 1);

	(void)state;
	assert_non_null(text);
	for (int kind = 0; kind < 3; kind++) {
		struct conf_errors e = {0};

		memset(text, "[{?"[kind], DEEP);
		text[DEEP] = 0;
		for (int i = 1; kind == 2 && i < DEEP; i += 2)
			text[i] = ' ';
		assert_null(parse(text, &e));
		assert_int_equal(e.count, 1);
		conf_errors_free(&e);
	}
	w_free(text);
}

static void large_input_ends(void **state)
{
	enum { ITEMS = 20000 };
	struct buf text = {0};
	struct config *c;

	(void)state;
	buf_add_str(&text, BASE "peers: {include: [");
	for (int i = 0; i < ITEMS; i++)
		buf_printf(&text, "\"name-%d\", ", i);
	buf_add_str(&text, "last]}\n");
	c = parse_well((const char *)text.p);
	assert_int_equal(c->peers.include_count, ITEMS + 1);
	config_free(c);
	buf_free(&text);
}

static void binary_is_refused(void **state)
{
	struct rng_seeded seed;
	struct rng rng = rng_seeded_init(&seed, 7);
	uint8_t bytes[256];
	uint64_t n;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct conf_errors e = {0};
		struct config *c = NULL;

		assert_int_equal(rng_below(&rng, sizeof(bytes), &n), 0);
		assert_int_equal(rng_fill(&rng, bytes, n), 0);
		assert_int_equal(config_parse(view_of(bytes, n), "f", &c, &e), -EINVAL);
		assert_true(e.count > 0);
		conf_errors_free(&e);
	}
}

/* Every text that is cut off is refused, or a configuration that prints; every flipped byte too. */
static void damaged_text_does_no_harm(void **state)
{
	size_t n = strlen(every_key);
	char *text = w_strdup(every_key);

	(void)state;
	for (size_t i = 0; i < 2 * n; i++) {
		struct conf_errors e = {0};
		struct config *c = NULL;
		size_t at = i % n;
		int err;

		text[at] = (char)(every_key[at] ^ (i < n ? 0 : 1 << (at % 8)));
		err = config_parse(view_of(text, i < n ? i : n), "f", &c, &e);
		assert_true(err == -EINVAL ? e.count > 0 : err == 0 && !e.count);
		if (!err) {
			struct buf out = {0};

			assert_int_equal(config_print(c, &out), 0);
			buf_free(&out);
		}
		config_free(c);
		conf_errors_free(&e);
		text[at] = every_key[at];
	}
	w_free(text);
}

static void globs(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} t[] = {
		{"*", "", true},
		{"*", "a/b", true},
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"?", "a", true},
		{"?", "", false},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "abc", true},
		{"a*c", "abcd", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"a?c", "abc", true},
		{"**", "a", true},
		{"fra?", "fra", false},
		{"acme/*", "acme/fra1", true},
		{"acme/*", "other/fra1", false},
		{"[a]", "a", false},
		{"*aab", "aaab", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (conf_glob(t[i].pattern, t[i].text) != t[i].match)
			fail_msg("\"%s\" on \"%s\"", t[i].pattern, t[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_read),
		cmocka_unit_test(endpoints_are_read),
		cmocka_unit_test(interfaces_and_routes_are_read),
		cmocka_unit_test(the_rest_is_read),
		cmocka_unit_test(offloads_are_switched_off),
		cmocka_unit_test(the_outer_dscp_may_be_copied),
		cmocka_unit_test(defaults_are_the_manuals),
		cmocka_unit_test(printing_reads_back_equal),
		cmocka_unit_test(null_is_the_default),
		cmocka_unit_test(json_is_yaml),
		cmocka_unit_test(mistakes_in_values),
		cmocka_unit_test(mistakes_in_routes),
		cmocka_unit_test(mistakes_in_form),
		cmocka_unit_test(mistakes_in_identity),
		cmocka_unit_test(mistakes_in_endpoints),
		cmocka_unit_test(several_mistakes_are_all_told),
		cmocka_unit_test(endless_mistakes_are_cut),
		cmocka_unit_test(a_pasted_key_is_never_shown),
		cmocka_unit_test(a_pasted_key_is_named),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(large_input_ends),
		cmocka_unit_test(binary_is_refused),
		cmocka_unit_test(damaged_text_does_no_harm),
		cmocka_unit_test(globs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
