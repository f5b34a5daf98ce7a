/* Liveness checks: an empty INFORMATIONAL when neither IKE nor the data path has heard of the peer
 * for a while, and now and then when the data path alone has: then the peer may hear nothing.
 * RFC 7296 2.4. The same asks a peer that seems to have moved whether it has. */
#include "ike/sa_priv.h"

#include <errno.h>

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

static wtime on_grid(const struct ike_sa *sa, wtime at)
{
	enum { GRID_TIMES = 20 };
	const struct ike_config *c = &sa->ike->config;
	int64_t past;

	if (!c->grid_us || sa->conn->c.dpd_us < GRID_TIMES * c->grid_us)
		return at;
	past = wtime_diff(at, c->grid_phase) % c->grid_us;
	return wtime_add(at, past > 0 ? c->grid_us - past : 0);
}

wtime ike_dpd_due(const struct ike_sa *sa)
{
	int64_t dpd = sa->conn->c.dpd_us;
	wtime heard = sa->heard;

	if (sa == sa->conn->sa && wtime_before(heard, sa->conn->heard))
		heard = sa->conn->heard;
	/* what the data path hears tells of one direction only */
	return on_grid(sa,
		wtime_min(wtime_add(heard, dpd), wtime_add(sa->heard, IKE_DPD_HEARD * dpd)));
}

int ike_dpd_elsewhere(struct ike_sa *sa, const struct endpoint *local,
	const struct endpoint *remote, wtime now)
{
	sa->trial_local = *local;
	sa->trial_remote = *remote;
	sa->trial_end = wtime_add(now, IKE_TIME_TRIAL);
	if (sa->active)
		ike_sa_send_sealed(sa, &sa->request.cut, local, remote);
	else if (list_empty(&sa->queue) && ike_sa_queue(sa, IKE_TASK_DPD, 0) < 0)
		return -ENOMEM;
	ike_sa_run(sa, now);
	return 0;
}
