/* Shared by the parsers of configurations. */
#pragma once
#include "conf/doc_priv.h"

enum { CONF_LOCATOR_MAX = 112 /* the SIDs' own bits follow */ };

enum { CONF_PORT = 13000, CONF_MTU_MIN = 1280, CONF_MTU_MAX = 65000, CONF_NAME_MAX = 255 };

/* A configuration with its defaults, in a new arena. 0 or -ENOMEM. */
int config_new(const char *file, struct config **ret);
/* The checks that need the whole: sets d->failed with a line each. */
void config_check(struct doc *d, const struct config *c);
/* routing.c: the sections routing and babel. */
extern const struct field conf_routing_fields[], conf_babel_fields[];
void conf_routing_defaults(struct config *c);
void conf_check_routing(struct doc *d, const struct config *c);
void conf_print_routing(const struct config *c, struct buf *b);
/* steering.c: the sections srv6, policies and exit. */
extern const struct field conf_srv6_fields[], conf_exit_fields[];
/* An address that a SID, or the source of steered packets, may be: IPv6 unicast that is routed. */
bool conf_is_sid(const struct ipaddr *a);
void conf_read_policies(struct doc *d, struct fy_node *n, void *object);
void conf_check_steering(struct doc *d, const struct config *c);
void conf_print_steering(const struct config *c, struct buf *b);
/* A text in double quotes, escaped. */
void conf_print_text(struct buf *b, const char *s);
/* "KEY: 4s": in the largest unit that divides. */
void conf_print_duration(struct buf *b, const char *key, int64_t us);
/* "ip4"/"ip6" from a scalar; IP_NONE and an error otherwise. */
enum ip_family conf_read_family(struct doc *d, struct fy_node *n);
/* The number of this node's endpoints; none is an error. */
size_t conf_endpoint_count(struct doc *d, struct fy_node *n);
/* A part of an identity, bounded so that a DER name of it fits; NULL and an error otherwise. */
const char *conf_read_name(struct doc *d, struct fy_node *n, const char *where);
