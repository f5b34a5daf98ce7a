/* Addresses, prefixes and UDP endpoints, IPv4 and IPv6, with their texts (RFC 5952). */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int ipaddr_parse(const char *s, struct ipaddr *ret)
{
	struct ipaddr a = {0};

	if (inet_pton(AF_INET, s, a.b) == 1)
		a.family = IP4;
	else if (inet_pton(AF_INET6, s, a.b) == 1)
		a.family = IP6;
	else
		return -EINVAL;
	*ret = a;
	return 0;
}

const char *ipaddr_format(const struct ipaddr *a, char out[static ADDR_TEXT])
{
	if (a->family == IP_NONE ||
		!inet_ntop(a->family == IP4 ? AF_INET : AF_INET6, a->b, out, ADDR_TEXT))
		strcpy(out, "-");
	return out;
}

bool ipaddr_equal(const struct ipaddr *a, const struct ipaddr *b)
{
	return ipaddr_compare(a, b) == 0;
}

int ipaddr_compare(const struct ipaddr *a, const struct ipaddr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->b, b->b, a->family == IP4 ? 4 : 16);
}

struct ipaddr ipaddr_from(enum ip_family family, const void *bytes)
{
	struct ipaddr a = {.family = (uint8_t)family};

	memcpy(a.b, bytes, family == IP4 ? 4 : 16);
	return a;
}

unsigned int ipaddr_bits(const struct ipaddr *a)
{
	return a->family == IP4 ? 32 : a->family == IP6 ? 128 : 0;
}

bool ipaddr_is_link_local(const struct ipaddr *a)
{
	if (a->family == IP4)
		return a->b[0] == 169 && a->b[1] == 254;
	return a->family == IP6 && a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

bool ipaddr_is_multicast(const struct ipaddr *a)
{
	if (a->family == IP4)
		return (a->b[0] & 0xf0) == 0xe0;
	return a->family == IP6 && a->b[0] == 0xff;
}

bool ipaddr_is_loopback(const struct ipaddr *a)
{
	static const uint8_t one[16] = {[15] = 1};

	if (a->family == IP4)
		return a->b[0] == 127;
	return a->family == IP6 && memcmp(a->b, one, sizeof(one)) == 0;
}

bool ipaddr_is_unspecified(const struct ipaddr *a)
{
	static const uint8_t zero[16];

	return a->family != IP_NONE && memcmp(a->b, zero, a->family == IP4 ? 4 : 16) == 0;
}

/* Decimal prefix length, no sign, no leading zero; -1 when it is none. */
static int parse_length(const char *s)
{
	int len = 0;

	if (!*s || (s[0] == '0' && s[1]))
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || len > 128)
			return -1;
		len = len * 10 + (*s - '0');
	}
	return len;
}

int prefix_parse(const char *s, struct prefix *ret)
{
	char host[ADDR_TEXT];
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	struct prefix p, masked;
	int len;

	if (n >= sizeof(host))
		return -EINVAL;
	memcpy(host, s, n);
	host[n] = 0;
	if (ipaddr_parse(host, &p.addr) < 0)
		return -EINVAL;
	len = slash ? parse_length(slash + 1) : (int)ipaddr_bits(&p.addr);
	if (len < 0 || len > (int)ipaddr_bits(&p.addr))
		return -EINVAL;
	p.len = (uint8_t)len;
	masked = prefix_of(&p.addr, p.len);
	if (!ipaddr_equal(&masked.addr, &p.addr))
		return -ERANGE;
	*ret = p;
	return 0;
}

const char *prefix_format(const struct prefix *p, char out[static PREFIX_TEXT])
{
	char host[ADDR_TEXT];

	(void)snprintf(out, PREFIX_TEXT, "%s/%u", ipaddr_format(&p->addr, host),
		(unsigned int)p->len);
	return out;
}

bool prefix_equal(const struct prefix *a, const struct prefix *b)
{
	return prefix_compare(a, b) == 0;
}

int prefix_compare(const struct prefix *a, const struct prefix *b)
{
	int c = ipaddr_compare(&a->addr, &b->addr);

	return c ? c : (int)a->len - (int)b->len;
}

bool prefix_contains(const struct prefix *p, const struct ipaddr *a)
{
	unsigned int whole = p->len / 8, rest = p->len % 8;

	if (p->addr.family != a->family || a->family == IP_NONE)
		return false;
	if (memcmp(p->addr.b, a->b, whole) != 0)
		return false;
	return !rest || ((p->addr.b[whole] ^ a->b[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

bool prefix_covers(const struct prefix *p, const struct prefix *q)
{
	return p->len <= q->len && prefix_contains(p, &q->addr);
}

struct prefix prefix_of(const struct ipaddr *a, unsigned int len)
{
	struct prefix p = {.addr = *a};
	unsigned int bits = ipaddr_bits(a);
	unsigned int whole;

	p.len = (uint8_t)(len < bits ? len : bits);
	whole = p.len / 8;
	if (whole < sizeof(p.addr.b)) {
		p.addr.b[whole] &= (uint8_t)(0xff << (8 - p.len % 8));
		memset(p.addr.b + whole + 1, 0, sizeof(p.addr.b) - whole - 1);
	}
	return p;
}

const char *endpoint_format(const struct endpoint *e, char out[static ENDPOINT_TEXT])
{
	char host[ADDR_TEXT];

	ipaddr_format(&e->ip, host);
	(void)snprintf(out, ENDPOINT_TEXT, e->ip.family == IP6 ? "[%s]:%u" : "%s:%u", host,
		(unsigned int)e->port);
	return out;
}

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && a->scope == b->scope && ipaddr_equal(&a->ip, &b->ip);
}
