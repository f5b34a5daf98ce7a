/* ESP packets of a recorded conversation of two other implementations (AES-256-GCM-16, keys of a
 * hybrid key exchange, test/vectors/hybrid.txt): every one of them opens, all SAs at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "base/vectors_test.h"
#include "esp/esp.h"

enum { CHILDREN = 8, FRAMES_MAX = 64, DATA_MAX = 2048, HEAD = 16 };

static struct tunnel_sa *recorded(const struct vectors *v, unsigned int child, bool from_i,
	bool inbound)
{
	const char *way = from_i ? "ir" : "ri";
	struct esp_sa_config c = {
		.inbound = inbound,
		.spi = (uint32_t)vectors_number(vectors_get(v, "child%u.spi_%s", child, way)),
		.aead = AEAD_AES256_GCM16,
		.key = vectors_get(v, "child%u.key_%s", child, way).p,
	};
	struct tunnel_sa *sa;

	assert_int_equal(esp_sa_new(&c, &sa), 0);
	return sa;
}

/* One packet as the file has it. */
struct frame {
	unsigned int child;
	bool from_i;
	uint8_t next_header;
	struct view packet, inner;
};

static struct frame frame_at(const struct vectors *v, unsigned int number)
{
	return (struct frame){
		.child = (unsigned int)vectors_number(vectors_get(v, "e%u.child", number)),
		.from_i = vectors_number(vectors_get(v, "e%u.from_i", number)) != 0,
		.next_header = (uint8_t)vectors_number(vectors_get(v, "e%u.next", number)),
		.packet = vectors_get(v, "e%u.packet", number),
		.inner = vectors_get(v, "e%u.inner", number),
	};
}

static void every_recorded_packet_opens(void **state)
{
	struct vectors *v = vectors_load(WEFT_TEST_DATA "/vectors/hybrid.txt");
	struct view frames = vectors_get(v, "esp_frames");
	static uint8_t data[FRAMES_MAX][DATA_MAX];
	struct tunnel_open op[FRAMES_MAX] = {0};
	struct tunnel_sa *sa[2 * CHILDREN] = {0};
	size_t sas = 0;
	struct esp_table *t;

	(void)state;
	assert_in_range(frames.n, 27, FRAMES_MAX);
	assert_int_equal(esp_table_new(2 * CHILDREN, &t), 0);
	for (unsigned int c = 1; vectors_has(v, "child%u.spi_ir", c); c++)
		for (int from_i = 0; from_i < 2; from_i++) {
			assert_true(sas < 2 * CHILDREN);
			sa[sas] = recorded(v, c, from_i, true);
			assert_int_equal(esp_ops()->add(t, sa[sas++]), 0);
		}
	for (size_t i = 0; i < frames.n; i++) {
		struct frame f = frame_at(v, frames.p[i]);

		assert_in_range(f.packet.n, 1, DATA_MAX);
		memcpy(data[i], f.packet.p, f.packet.n);
		op[i].data = data[i];
		op[i].len = (uint32_t)f.packet.n;
		esp_ops()->demux(t, &op[i]);
	}
	esp_ops()->open_batch(op, (uint32_t)frames.n);
	for (size_t i = 0; i < frames.n; i++) {
		struct frame f = frame_at(v, frames.p[i]);

		assert_int_equal(esp_ops()->accept(&op[i]), DROP_NONE);
		assert_int_equal(op[i].next_header, f.next_header);
		assert_int_equal(op[i].text_len, f.inner.n);
		assert_memory_equal(op[i].text, f.inner.p, f.inner.n);
	}
	for (size_t i = 0; i < sas; i++)
		esp_sa_free(sa[i]);
	esp_table_free(t);
	vectors_free(v);
}

/* All but the IV, and so the ciphertext, is as the other implementation wrote it. */
static void sealing_gives_the_same_frame(void **state)
{
	struct vectors *v = vectors_load(WEFT_TEST_DATA "/vectors/hybrid.txt");
	struct view frames = vectors_get(v, "esp_frames");

	(void)state;
	for (size_t i = 0; i < frames.n; i++) {
		struct frame f = frame_at(v, frames.p[i]);
		struct tunnel_sa *sa = recorded(v, f.child, f.from_i, false);
		uint8_t bytes[DATA_MAX];
		struct tunnel_seal op = {.sa = sa,
			.seq = get_u32(f.packet.p + 4),
			.text = bytes + HEAD,
			.len = (uint32_t)f.inner.n,
			.next_header = f.next_header};

		assert_int_equal(sa->headroom, HEAD);
		memcpy(op.text, f.inner.p, f.inner.n);
		esp_ops()->seal_batch(&op, 1);
		assert_int_equal(op.sealed, f.packet.n);
		assert_memory_equal(bytes, f.packet.p, 8);
		esp_sa_free(sa);
	}
	vectors_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_recorded_packet_opens),
		cmocka_unit_test(sealing_gives_the_same_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
