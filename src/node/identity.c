/* Identities as ranet builds them: a DER Name of O, CN and serialNumber, each in a SET of its own
 * (ITU-T X.690, RFC 5280 4.1.2.4), used as ID_DER_ASN1_DN. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>

enum {
	DER_SEQUENCE = 0x30,
	DER_SET = 0x31,
	DER_OID = 0x06,
	DER_UTF8 = 0x0c,
	DER_PRINTABLE = 0x13,
	DER_LONG = 0x80,
	OID_LEN = 3,
};

static size_t der_length_size(size_t n)
{
	return n < DER_LONG ? 1 : n < 256 ? 2 : 3;
}

static size_t der_size(size_t content)
{
	return 1 + der_length_size(content) + content;
}

static void der_header(struct wcur *w, uint8_t tag, size_t n)
{
	wcur_u8(w, tag);
	if (n < DER_LONG) {
		wcur_u8(w, (uint8_t)n);
	} else if (n < 256) {
		wcur_u8(w, DER_LONG | 1);
		wcur_u8(w, (uint8_t)n);
	} else {
		wcur_u8(w, DER_LONG | 2);
		wcur_u16(w, (uint16_t)n);
	}
}

struct rdn {
	uint8_t type; /* last byte of the OID 2.5.4.x */
	uint8_t tag;
	const char *value;
};

static size_t rdn_inner(const struct rdn *r)
{
	return der_size(OID_LEN) + der_size(strlen(r->value));
}

static void rdn_write(struct wcur *w, const struct rdn *r)
{
	const uint8_t oid[OID_LEN] = {0x55, 0x04, r->type};
	size_t inner = rdn_inner(r);

	der_header(w, DER_SET, der_size(inner));
	der_header(w, DER_SEQUENCE, inner);
	der_header(w, DER_OID, OID_LEN);
	wcur_bytes(w, oid, sizeof(oid));
	der_header(w, r->tag, strlen(r->value));
	wcur_bytes(w, r->value, strlen(r->value));
}

int node_identity(const char *organization, const char *name, const char *serial,
	struct node_id *ret)
{
	const struct rdn rdn[] = {
		{10, DER_UTF8, organization},
		{3, DER_UTF8, name},
		{5, DER_PRINTABLE, serial},
	};
	size_t count = serial ? 3 : 2, total = 0;
	struct wcur w = wcur_of(ret->der, sizeof(ret->der));

	for (size_t i = 0; i < count; i++) {
		if (strlen(rdn[i].value) > NODE_ID_MAX)
			return -E2BIG;
		total += der_size(der_size(rdn_inner(&rdn[i])));
	}
	der_header(&w, DER_SEQUENCE, total);
	for (size_t i = 0; i < count; i++)
		rdn_write(&w, &rdn[i]);
	if (w.full)
		return -E2BIG;
	ret->len = w.len;
	return 0;
}

int node_link_local(const struct node_id *own, const struct node_id *peer, struct ipaddr *ret)
{
	const struct view parts[] = {view_of(own->der, own->len), view_of(peer->der, peer->len)};
	uint8_t digest[32], b[16] = {0xfe, 0x80};

	if (hash_sha256(parts, 2, digest) < 0)
		return -EIO;
	memcpy(b + 8, digest, 8);
	*ret = ipaddr_from(IP6, b);
	return 0;
}

int node_router_id(const struct config *c, uint8_t ret[static 8])
{
	struct node_id id;
	struct view part;
	uint8_t digest[32];
	int err;

	if (c->node.has_router_id) {
		memcpy(ret, c->node.router_id, 8);
		return 0;
	}
	err = node_identity(c->node.organization, c->node.name, NULL, &id);
	if (err < 0)
		return err;
	part = view_of(id.der, id.len);
	err = hash_sha256(&part, 1, digest);
	if (err < 0)
		return err;
	memcpy(ret, digest, 8);
	return 0;
}
