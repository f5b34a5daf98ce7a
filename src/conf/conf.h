/* Text -> immutable configuration and registry. Unknown keys, duplicates and YAML aliases are
 * errors; every error has file, line, column, what is wrong and what would be right, and never a
 * key's contents. Reads no files: the caller gives the text. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/buf.h"
#include "base/cur.h"
#include "crypto/crypto.h"

struct conf_mark { /* a place in a text, counted from 1; 0: not known */
	int line, column;
};

struct conf_endpoint { /* one of this node's */
	const char *serial;
	enum ip_family family;
	struct ipaddr address; /* IP_NONE: any */
	uint16_t port;         /* default 13000 */
	struct conf_mark at;
	const char *interface; /* NULL: any */
	uint32_t fwmark;       /* 0: underlay.fwmark */
	const char *updown;    /* script, or NULL */
};

struct conf_announce {
	struct prefix destination, source; /* source length 0: any */
};

struct conf_static_route {
	struct prefix prefix;
	const char *organization; /* NULL: node is a bare name */
	const char *node;
	struct conf_mark node_at;
};

struct conf_filter { /* routing.import, routing.export */
	struct prefix prefix;
	uint8_t ge, le;           /* 0: not given */
	const char *organization; /* NULL: any */
	bool accept;
};

/* routing.redistribute: routes of the host's own that are announced */
struct conf_redistribute {
	uint32_t table;
	uint8_t protocol;
	uint16_t metric;
};

enum { CONF_DSCP_MAX = 63 };
/* CONF_SOURCE_TABLES: from routing.source_table on; a power of two */
enum { CONF_REDISTRIBUTE_MAX = 16, CONF_SOURCE_TABLES = 64 };

enum { CONF_MAC_KEYS = 4, CONF_MAC_KEY = 64 };

struct conf_mac_key { /* HMAC-SHA256 */
	uint8_t key[CONF_MAC_KEY];
	uint8_t len;
};

struct conf_sid { /* srv6.sids */
	const char *name;
	struct ipaddr sid;
};

/* CONF_SEGMENTS_MAX: with the exit; CONF_POLICY_NAME: bytes, with the zero */
enum { CONF_SEGMENTS_MAX = 64, CONF_POLICY_NAME = 64 };

struct conf_hop {          /* a waypoint or an exit */
	const char *text;  /* as given: name, organization/name or SID; NULL: not given */
	struct ipaddr sid; /* IP_NONE: a name */
	struct conf_mark at;
};

struct conf_candidate {
	struct conf_hop *via;
	size_t via_count;
	struct conf_hop exit;
};

struct conf_policy {
	const char *name;
	struct prefix source; /* family IP_NONE: any */
	struct prefix destination;
	struct conf_candidate *candidate; /* one at least */
	size_t candidate_count;
	struct conf_candidate only; /* via and exit given directly: it is candidate[0] too */
	bool direct;                /* fallback; else drop */
};

enum conf_pq { CONF_PQ_PREFER, CONF_PQ_REQUIRE, CONF_PQ_OFF };
enum conf_switch { CONF_AUTO, CONF_ON, CONF_OFF };
/* What the kernel or the device can take over, each with a switch of its own. */
enum conf_offload {
	CONF_UDP_GSO,   /* many datagrams of one size in one send (UDP_SEGMENT) */
	CONF_UDP_GRO,   /* and in one buffer received (UDP_GRO) */
	CONF_TUN_TSO,   /* the kernel hands over TCP superpackets, */
	CONF_TUN_USO,   /* and such of UDP */
	CONF_MERGE_TCP, /* TCP packets are merged into superpackets for the kernel, */
	CONF_MERGE_UDP, /* and those of UDP */
	CONF_OFFLOADS
};
/* Whose code seals packets; auto: the fastest that is there and proves itself. */
enum conf_crypto { CONF_CRYPTO_AUTO, CONF_CRYPTO_OPENSSL, CONF_CRYPTO_IPSEC_MB };
enum { CONF_THREADS_MAX = 16, CONF_HELPERS_AUTO = CONF_THREADS_MAX + 1 };
enum conf_log { CONF_LOG_ERROR, CONF_LOG_WARNING, CONF_LOG_INFO, CONF_LOG_DEBUG };

struct config {
	const char *file; /* as given, for messages */
	bool ranet;       /* from ranet's files: its pairing rule holds */
	struct {
		const char *organization, *name;
		const char *key; /* path */
		bool has_router_id;
		uint8_t router_id[8];
		bool transit;
	} node;
	const char *registry; /* path */
	struct conf_mark key_at, registry_at;
	struct conf_endpoint *endpoint;
	size_t endpoint_count;
	struct {
		const char **include, **exclude; /* globs over "name" and "organization/name" */
		size_t include_count, exclude_count;
	} peers;
	struct {
		const char *name; /* default weft0 */
		uint16_t mtu;     /* default 1400 */
		struct conf_tun_address {
			struct ipaddr ip;
			uint8_t len;
		} * address;
		size_t address_count;
		const char *netns; /* NULL: ours */
	} tun;
	struct {
		const char **exclude_interface;
		size_t exclude_interface_count;
		uint32_t fwmark, fwmask; /* default 0x51/0xff */
		bool copy_dscp;          /* outer DSCP is the inner's; else it is */
		uint8_t dscp;            /* this one; default 0, and 0 with copy_dscp */
		const char *netns, *vrf;
	} underlay;
	struct conf_announce *announce;
	size_t announce_count;
	struct conf_static_route *static_route;
	size_t static_route_count;
	struct {
		uint32_t table, default_table; /* 252, 253 */
		uint32_t policy_table;         /* 251 */
		uint8_t protocol;              /* 157 */
		uint32_t rule_priority;        /* 5200 */
		uint32_t source_table;         /* 25216: the first of CONF_SOURCE_TABLES */
		struct conf_redistribute *redistribute;
		size_t redistribute_count;
		struct conf_filter *import, *export;
		size_t import_count, export_count;
	} routing;
	struct {
		int64_t hello_us;
		uint16_t cost;
		int64_t rtt_min_us, rtt_max_us;
		uint16_t rtt_cost;
		struct conf_mac_key mac_key[CONF_MAC_KEYS];
		size_t mac_key_count;
		bool accept_unsigned;
	} babel;
	struct {
		enum conf_pq post_quantum;
		int64_t lifetime_us, child_lifetime_us, dpd_us;
	} ike;
	struct {
		struct prefix locator; /* length 0: not given */
		struct ipaddr source;  /* IP_NONE: not given */
		struct prefix *sources;
		size_t source_count;
		bool linux_compat, encap_full, refuse_hmac;
		struct conf_sid *sid;
		size_t sid_count;
	} srv6;
	struct conf_policy *policy;
	size_t policy_count;
	struct {
		struct prefix *allow;
		size_t allow_count;
		bool masquerade; /* default false */
	} exit;
	struct {
		/* tun_gso: off for all four of the TUN; else each has its own */
		enum conf_switch offload[CONF_OFFLOADS], tun_gso, aqm;
		enum conf_crypto crypto;
		uint32_t threads; /* 1 to CONF_THREADS_MAX; 0: auto, one a core */
		uint32_t helpers; /* 0 (default) to CONF_THREADS_MAX, or CONF_HELPERS_AUTO */
	} plane;
	struct {
		const char *socket, *group; /* /run/weft/weft.sock, weft */
	} control;
	enum conf_log log;
	void *arena; /* everything above lives in it */
};

struct registry_endpoint {
	const char *serial;
	enum ip_family family;
	const char *address; /* an address or a DNS name; NULL: none, the peer initiates */
	uint16_t port;
};

struct registry_node {
	const char *organization, *name;
	uint8_t key[ED25519_PUBLIC]; /* the organization's, or remarks.weft.public_key */
	struct registry_endpoint *endpoint;
	size_t endpoint_count;
	bool has_srv6;
	struct prefix srv6; /* remarks.weft.srv6: the node's locator */
	bool has_allow;
	struct prefix *allow;
	size_t allow_count;
	bool has_router_id;
	uint8_t router_id[8];
	bool transit; /* default true */
};

struct registry {
	struct registry_node *node;
	size_t node_count;
	void *arena;
};

/* One line for people: "file:line:col: what is wrong, what would be right". */
struct conf_errors {
	struct buf text; /* lines, each ended by \n */
	size_t count;
};

/* Parses weft.yaml. On an error nothing is made, errors has one line or more, -EINVAL (-ENOMEM).
 * file is for messages. */
int config_parse(struct view text, const char *file, struct config **ret,
	struct conf_errors *errors);
void config_free(struct config *c);
/* The configuration printed back as YAML, complete with defaults, which config_parse() reads to an
 * equal one. 0 or -ENOMEM. */
int config_print(const struct config *c, struct buf *out);
/* Appends a line "KEY: WHAT" for each key at the top of the file whose value differs in a and b,
 * defaults filled in; nothing when they are equal. 0 or -ENOMEM. */
int config_diff(const struct config *a, const struct config *b, const char *what, struct buf *out);
/* Parses ranet's config.json into a configuration (key: path of the private key file, registry:
 * path of the registry), with ranet's meaning: see the manual. Errors as config_parse(). */
int config_parse_ranet(struct view text, const char *file, const char *registry, const char *key,
	struct config **ret, struct conf_errors *errors);
/* Parses registry.json (ranet's format; what is ours in remarks.weft). One broken entry never takes
 * the others down: it is left out and named in errors, and the call still succeeds; text that is no
 * registry at all fails with -EINVAL. Duplicate identities: every later one is left out and named.
 */
int registry_parse(struct view text, const char *file, struct registry **ret,
	struct conf_errors *errors);
void registry_free(struct registry *r);
void conf_errors_free(struct conf_errors *e);

/* A level of the log by its word: error, warning, info, debug. 0 or -EINVAL. */
int conf_log_parse(const char *word, enum conf_log *ret);
/* A switch of plane.offload by its name there. 0 or -EINVAL. */
int conf_offload_parse(const char *word, enum conf_offload *ret);
/* And its name; static. */
const char *conf_offload_name(enum conf_offload o);
/* Appends the names of all, with `between` between them. */
void conf_offload_names(struct buf *b, const char *between);
/* In a set of switches, that one. */
static inline unsigned int conf_offload_bit(enum conf_offload o)
{
	return 1U << o;
}
/* The set of those that a configuration has on; none of the TUN's four where tun_gso is off. */
unsigned int conf_offloads(const struct config *c);
/* Glob over names: "*" and "?" only. */
bool conf_glob(const char *pattern, const char *text);
/* Whether a node of the registry is this one; ranet means any of its name by that. */
bool conf_is_self(const struct config *c, const struct registry_node *r);
/* Whether peers.include and peers.exclude let a node in. */
bool conf_wants_peer(const struct config *c, const struct registry_node *r);
