/* ECN at the end of a tunnel: RFC 6040 4.2. */
#include "wire/ecn.h"

#include "base/cur.h"
#include "wire/csum.h"

enum { IP4_CHECKSUM_AT = 10, DROP = 4, IP6_ECN_SHIFT = 4 };

enum drop_reason ecn_decapsulate(uint8_t outer_tos, uint8_t *packet)
{
	/* [inner][outer] */
	static const uint8_t result[4][4] = {
		[ECN_NOT_ECT] = {[ECN_NOT_ECT] = ECN_NOT_ECT,
			[ECN_ECT0] = ECN_NOT_ECT,
			[ECN_ECT1] = ECN_NOT_ECT,
			[ECN_CE] = DROP},
		[ECN_ECT0] = {[ECN_NOT_ECT] = ECN_ECT0,
			[ECN_ECT0] = ECN_ECT0,
			[ECN_ECT1] = ECN_ECT1,
			[ECN_CE] = ECN_CE},
		[ECN_ECT1] = {[ECN_NOT_ECT] = ECN_ECT1,
			[ECN_ECT0] = ECN_ECT1,
			[ECN_ECT1] = ECN_ECT1,
			[ECN_CE] = ECN_CE},
		[ECN_CE] = {[ECN_NOT_ECT] = ECN_CE,
			[ECN_ECT0] = ECN_CE,
			[ECN_ECT1] = ECN_CE,
			[ECN_CE] = ECN_CE},
	};
	bool v4 = packet[0] >> 4 == 4;
	uint16_t before = get_u16(packet), after;
	uint8_t inner = (v4 ? packet[1] : packet[1] >> IP6_ECN_SHIFT) & ECN_MASK;
	uint8_t now = result[inner][outer_tos & ECN_MASK];

	if (now == DROP)
		return DROP_ECN;
	if (now == inner)
		return DROP_NONE;
	if (v4)
		packet[1] = (uint8_t)((packet[1] & ~ECN_MASK) | now);
	else
		packet[1] = (uint8_t)((packet[1] & ~(ECN_MASK << IP6_ECN_SHIFT)) |
			now << IP6_ECN_SHIFT);
	after = get_u16(packet);
	if (v4)
		put_u16(packet + IP4_CHECKSUM_AT,
			csum_update(get_u16(packet + IP4_CHECKSUM_AT), before, after));
	return DROP_NONE;
}
