/* Two engines: the initial exchanges, with every message lost, doubled and late; policies; ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ike/sa_priv.h"
#include "ike/bed_test.h"

static void handshake_hybrid(void **state)
{
	struct bed_options o = {.seed = 1, .passive = {false, true}};
	struct ike_conn_status s;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	assert_true(bed_is_tidy(&bed));
	s = bed_status(&bed, 1);
	assert_int_equal(s.sa.aead, AEAD_AES256_GCM16);
	assert_int_equal(s.sa.kex[0], KEX_X25519);
	assert_int_equal(s.sa.kex[1], KEX_MLKEM768);
	assert_int_equal(s.children[0].kex[1], KEX_MLKEM768);
	assert_true(s.children[0].esn);
	assert_int_equal(bed.node[0].ups, 1);
	assert_int_equal(bed.node[1].ups, 1);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handshake_hybrid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
