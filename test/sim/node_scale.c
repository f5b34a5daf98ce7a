/* What a whole node costs against the size of its mesh: one row of doc/benchmarks.md for each size
 * of the arguments (2 to 64 nodes, each linked with each); without any, all rows of the table.
 *
 *	sim_node_scale [NODES]...
 *
 * Nodes as in the daemon, with IKE, ESP and Babel, no traffic but their own, in virtual time. */
#include "sim.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { UP_MAX_S = 60, SETTLE_S = 30, WINDOW_S = 60, NODES_MAX = 64 };

static double cpu_since(clock_t from)
{
	return (double)(clock() - from) / CLOCKS_PER_SEC;
}

static uint64_t datagrams(struct sim *s, unsigned int nodes)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < nodes; i++)
		n += sim_udp_sent(s, i);
	return n;
}

static bool row(unsigned int nodes)
{
	const struct sim_options o = {.seed = 1,
		.nodes = nodes,
		.path = {.delay_us = 5 * W_MS, .jitter_us = 1 * W_MS},
		.learn = true};
	const double kilo = 1024, milli = 1000, micro = 1e6, n = nodes;
	size_t memory = mallinfo2().uordblks;
	struct sim *s = sim_new(&o);
	clock_t from = clock();
	uint64_t packets;
	double up, came, steady;
	bool ok;

	for (unsigned int i = 0; i < nodes; i++)
		sim_start(s, i);
	up = (double)sim_now(s).us;
	ok = sim_run_until(s, UP_MAX_S * W_SEC, sim_mesh_up) &&
		sim_run_until(s, UP_MAX_S * W_SEC, sim_all_routed);
	up = ((double)sim_now(s).us - up) / micro;
	came = cpu_since(from);
	sim_run(s, SETTLE_S * W_SEC);
	memory = mallinfo2().uordblks - memory;
	packets = datagrams(s, nodes);
	from = clock();
	sim_run(s, WINDOW_S * W_SEC);
	steady = cpu_since(from);
	packets = datagrams(s, nodes) - packets;
	printf("| %u | %.1f | %.0f | %.1f | %.1f | %.0f |\n", nodes, up, (double)memory / kilo / n,
		came * milli / n, (double)packets / n / WINDOW_S, steady * micro / n / WINDOW_S);
	fflush(stdout);
	sim_free(s);
	return ok;
}

int main(int argc, char **argv)
{
	static const unsigned int sizes[] = {2, 10, 50};
	bool ok = true;

	printf("| nodes | all linked and reached, s | kB a node | CPU of coming up, ms a node "
	       "| datagrams/s a node | CPU, us a node-second |\n|---|---|---|---|---|---|\n");
	for (int i = 1; i < argc; i++) {
		unsigned long n = strtoul(argv[i], NULL, 10);

		if (n < 2 || n > NODES_MAX) {
			fprintf(stderr, "%s: not 2 to %d nodes\n", argv[i], NODES_MAX);
			return 2;
		}
		ok &= row((unsigned int)n);
	}
	for (size_t i = 0; argc == 1 && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		ok &= row(sizes[i]);
	return ok ? 0 : 1;
}
