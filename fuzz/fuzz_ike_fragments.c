/* Reassembly: each seven bytes of the input are one authentic message or fragment: message ID,
 * number, total (two bytes each but the ID), flags (1: clear payload in front, 2: forged, 4: an
 * SK), length / 4. */
#include "fuzz.h"
#include "ike/protect_priv.h"

enum { STEPS_MAX = 2000, TEXT_MAX = 1024 };

struct bench {
	struct ike_protect *sender, *receiver;
	struct ike_reassembly *kept;
	struct ike_header h;
};

/* One message into the receiver. False: the input is over. */
static bool step(struct bench *b, struct cur *c)
{
	static const uint8_t text[TEXT_MAX];
	struct ike_payload clear = {.type = IKE_PL_VENDOR, .body = view_of("clear", 5)};
	struct ike_packet packet = {.h = &b->h, .first = IKE_PL_VENDOR, .clear = &clear};
	struct ike_opened o = {0};
	enum ike_open_result result;
	struct buf bytes = {0};
	struct ike_msg m;
	uint8_t flags;

	b->h.mid = cur_u8(c);
	packet.number = cur_u16(c);
	packet.total = cur_u16(c);
	flags = cur_u8(c);
	packet.text = view_of(text, 4 * (size_t)cur_u8(c));
	if (c->bad)
		return false;
	packet.clear_count = flags & 1;
	if (flags & 4)
		packet.number = 0;
	FUZZ_ASSERT(ike_seal_packet(b->sender, NULL, &packet, &bytes) == 0);
	if (flags & 2)
		bytes.p[bytes.n - 1] ^= 1;
	FUZZ_ASSERT(ike_msg_parse(buf_view(&bytes), &m) == IKE_PARSE_OK);
	result = ike_open(b->receiver, b->kept, &m, &o);
	FUZZ_ASSERT(result < IKE_OPEN_COUNT);
	FUZZ_ASSERT((result == IKE_OPEN_OK) == (o.whole.p != NULL));
	FUZZ_ASSERT(!(flags & 2) || (result != IKE_OPEN_OK && result != IKE_OPEN_INCOMPLETE));
	if (result == IKE_OPEN_OK) {
		FUZZ_ASSERT(o.inner_at <= o.whole.n && o.whole.n <= IKE_MESSAGE_MAX);
		FUZZ_ASSERT(ike_opened_parse(&o, &m) < IKE_PARSE_COUNT);
	}
	ike_opened_free(&o);
	buf_free(&bytes);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ike_keys keys = {.aead = AEAD_AES128_GCM16, .prf = PRF_HMAC_SHA2_256};
	struct cur c = cur_of(data, size);
	struct bench b = {.h = {.version = IKE_VERSION, .exchange = IKE_AUTH}};

	FUZZ_ASSERT(ike_protect_new(&keys, true, &b.sender) == 0);
	FUZZ_ASSERT(ike_protect_new(&keys, false, &b.receiver) == 0);
	FUZZ_ASSERT(ike_reassembly_new(&b.kept) == 0);
	for (unsigned int i = 0; i < STEPS_MAX && step(&b, &c); i++)
		;
	ike_reassembly_free(b.kept);
	ike_protect_free(b.sender);
	ike_protect_free(b.receiver);
	return 0;
}
