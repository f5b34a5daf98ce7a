/* Packets on their way to the TUN merged into superpackets, where the kernel's own GRO would merge
 * them: in-order TCP segments and equal UDP datagrams of one flow. Nothing is copied: a frame is
 * the first packet, its header patched, and the payloads of the others. Cutting a merged frame by
 * gso.h gives the packets again, IPv4 identification aside (RFC 6864: with DF it means nothing). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/frame.h"
#include "wire/ip.h"

enum {
	GRO_FLOWS = 16,
	GRO_SEGMENTS_MAX = 64,
	GRO_LEN_MAX = 65535,
};

/* One flow that may go on: private. */
struct gro_flow {
	uint8_t *head;  /* its first packet; NULL: free */
	uint32_t frame; /* index of its frame */
	uint32_t size;  /* payload bytes of the first packet */
	uint32_t header_len;
	uint32_t next_seq; /* TCP */
	uint16_t l4;
	uint16_t next_id; /* IPv4 */
	uint8_t family, proto;
	uint8_t last_flags; /* TCP: FIN and PSH of the last packet merged */
	bool open;          /* more may come */
	bool verified;      /* the first packet's checksum was looked at */
};

struct gro {
	struct tun_tx *out; /* borrowed: capacity frames */
	uint32_t capacity, count;
	uint32_t turn; /* flow to be replaced next */
	bool merge_tcp, merge_udp;
	struct gro_flow *last; /* that took the last packet, or is to be looked at; NULL: none */
	struct gro_flow flow[GRO_FLOWS];
};

/* Begins with no frames; `out` has room for capacity frames. */
void gro_init(struct gro *g, struct tun_tx *out, uint32_t capacity);
/* What may be merged from here on. */
void gro_set_merge(struct gro *g, bool tcp, bool udp);

/* Takes a packet of v->len bytes that passed ip_parse(): it goes to the end of a frame of its flow,
 * or makes a frame of its own. The packet is borrowed until gro_reset(), and changed. Packets of
 * one flow leave in the order in which they came. False, and nothing done, when all frames are in
 * use. */
bool gro_add(struct gro *g, uint8_t *packet, const struct ip_view *v);

/* As gro_add() for a packet of len bytes that nobody has parsed yet, when it goes on with the flow
 * that the last one belonged to: true when its IP header is that one's but for length, ID and
 * checksum, which are right, and the packet was merged. False, and nothing done, otherwise: parse
 * it, and gro_add(). */
bool gro_join(struct gro *g, uint8_t *packet, uint32_t len);

/* Completes the headers of merged frames. Returns the number of frames in `out`; a frame that was
 * not merged has an offload header of zeros. No gro_add() before gro_reset(). */
uint32_t gro_finish(struct gro *g);
/* Forgets all frames, after they were written. */
void gro_reset(struct gro *g);
