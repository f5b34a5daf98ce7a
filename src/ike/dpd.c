/* Liveness checks: an empty INFORMATIONAL when neither IKE nor the data path has heard of the peer
 * for a while. RFC 7296 2.4. */
#include "ike/sa_priv.h"

int ike_dpd_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	(void)sa;
	(void)t;
	(void)b;
	(void)now;
	return 0;
}

void ike_dpd_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	(void)sa; /* that it came is all: sa->heard is set */
	(void)t;
	(void)rx;
}

wtime ike_dpd_due(const struct ike_sa *sa)
{
	wtime heard = sa->heard;

	if (sa == sa->conn->sa && wtime_before(heard, sa->conn->heard))
		heard = sa->conn->heard;
	return wtime_add(heard, sa->conn->c.dpd_us);
}
