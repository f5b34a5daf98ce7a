/* One link of a reply, as status and links show it. */
#pragma once
#include "base/buf.h"
#include "ctl/value.h"
#include "weft/table.h"

/* The colour of a state. */
enum table_colour link_colour(const char *state);
/* "acme/fra1". Appends to out. */
void link_peer(struct buf *out, const struct value *link);
/* "203.0.113.1:13000", "[2001:db8::1]:13000"; "-" for an address that is not known. */
void link_endpoint(struct buf *out, const struct value *endpoint);
/* The reason as people read it; "" when there is none. */
const char *link_reason(const struct value *link);
