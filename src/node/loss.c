/* Loss of a link as its own traffic shows it: of the sequence numbers that the peer used, how many
 * came. It counts over 30 seconds and 1000 numbers at least, and as much as two spans in a row
 * have: the start of one flow overflows a queue once, and that is no property of the way. Babel
 * makes a cost of what is above 2 %. What a link loses that carries less is seen in the hellos
 * alone. */
#include "node/node_priv.h"

enum { LOSS_NUMBERS = 1000 };

#define LOSS_US       (30 * W_SEC)
#define LOSS_STALE_US (300 * W_SEC) /* so long without enough numbers: not known any more */

static void begin(struct node_link *l, uint64_t highest, uint64_t numbers, wtime now)
{
	l->loss_child = l->outbound;
	l->loss_since = now;
	l->loss_highest = highest;
	l->loss_numbers = numbers;
}

static void tell(struct node *n, struct node_link *l, bool known, double loss, wtime now)
{
	double both = l->has_loss && l->loss < loss ? l->loss : loss;

	if (known && !l->has_loss)
		both = 0;
	l->has_loss = known;
	l->loss = known ? loss : 0;
	if (l->speaking)
		babel_iface_loss(n->babel, l->slot + 1, known ? both : -1, now);
}

void node_loss_tick(struct node *n, struct node_link *l, wtime now)
{
	const struct tunnel_sa *in = l->current ? l->current->in : NULL;
	uint64_t highest, numbers, used, came;
	int64_t took;

	if (!in)
		return;
	/* a packet between the two readings makes a loss of one in a thousand at most */
	numbers = __atomic_load_n(&in->numbers, __ATOMIC_RELAXED);
	highest = __atomic_load_n(&in->highest, __ATOMIC_RELAXED);
	if (l->loss_child != l->outbound) {
		begin(l, highest, numbers, now);
		return;
	}
	took = wtime_diff(now, l->loss_since);
	used = highest - l->loss_highest;
	came = numbers - l->loss_numbers;
	if (took >= LOSS_US && used >= LOSS_NUMBERS) {
		tell(n, l, true, came < used ? 1 - (double)came / (double)used : 0, now);
		begin(l, highest, numbers, now);
	} else if (took >= LOSS_STALE_US) {
		tell(n, l, false, 0, now);
		begin(l, highest, numbers, now);
	}
}
