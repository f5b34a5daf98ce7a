/* NAT detection (RFC 7296 2.23). UDP encapsulation is wanted always, so our source hash is made
 * over port 0, which never matches. The peer's is taken whatever it is: it only tells whether a NAT
 * stands before the peer. */
#include "ike/sa_priv.h"

enum { NATD_HASH = 20 };

static int natd_hash(uint64_t spi_i, uint64_t spi_r, const struct ipaddr *ip, uint16_t port,
	uint8_t ret[static NATD_HASH])
{
	uint8_t spis[2 * IKE_SPI_LEN], p[2];
	const struct view data[] = {view_of(spis, sizeof(spis)),
		view_of(ip->b, ip->family == IP6 ? 16 : 4), view_of(p, sizeof(p))};

	put_u64(spis, spi_i);
	put_u64(spis + IKE_SPI_LEN, spi_r);
	put_u16(p, port);
	return hash_sha1(data, sizeof(data) / sizeof(data[0]), ret);
}

int ike_natd_build(struct ike_build *b, uint64_t spi_i, uint64_t spi_r,
	const struct ike_datagram *d)
{
	uint8_t hash[NATD_HASH];
	struct ipaddr own = d->local.ip;
	int err;

	if (own.family == IP_NONE)
		own.family = d->remote.ip.family; /* unknown: the unspecified address */
	err = natd_hash(spi_i, spi_r, &own, 0, hash);
	if (err < 0)
		return err;
	ike_build_status(b, IKE_N_NAT_DETECTION_SOURCE_IP, view_of(hash, sizeof(hash)));
	err = natd_hash(spi_i, spi_r, &d->remote.ip, d->remote.port, hash);
	if (err < 0)
		return err;
	ike_build_status(b, IKE_N_NAT_DETECTION_DESTINATION_IP, view_of(hash, sizeof(hash)));
	return 0;
}

static bool natd_is(struct view hash, const struct ike_msg *m, const struct ipaddr *ip,
	uint16_t port)
{
	uint8_t want[NATD_HASH];

	return natd_hash(m->h.spi_i, m->h.spi_r, ip, port, want) == 0 &&
		view_equal(hash, view_of(want, sizeof(want)));
}

bool ike_natd_peer_behind(const struct ike_msg *m, const struct ike_datagram *d)
{
	const struct ipaddr none = {.family = d->remote.ip.family};
	struct ike_notify n;
	unsigned int at = 0;
	bool any = false;

	while (ike_notify_next(m, &at, &n)) {
		if (n.type != IKE_N_NAT_DETECTION_SOURCE_IP)
			continue;
		any = true;
		if (natd_is(n.data, m, &d->remote.ip, d->remote.port) ||
			natd_is(n.data, m, &d->remote.ip, 0) || natd_is(n.data, m, &none, 0))
			return false;
	}
	return any;
}
