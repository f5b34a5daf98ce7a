/* Where the fields stand in IP, TCP and UDP headers: what gso.c and gro.c share. */
#pragma once

enum ip_field {
	IP4_TOS_AT = 1,
	IP4_LENGTH_AT = 2,
	IP4_ID_AT = 4,
	IP4_FRAGMENT_AT = 6,
	IP4_TTL_AT = 8,
	IP4_CHECKSUM_AT = 10,
	IP4_ADDRESSES_AT = 12,
	IP6_LENGTH_AT = 4,
	IP6_NEXT_AT = 6,
	IP6_HOP_LIMIT_AT = 7,
	IP6_ADDRESSES_AT = 8,
};

enum l4_field {
	TCP_SEQ_AT = 4,
	TCP_ACK_AT = 8,
	TCP_OFFSET_AT = 12,
	TCP_FLAGS_AT = 13,
	TCP_WINDOW_AT = 14,
	TCP_CHECKSUM_AT = 16,
	TCP_URGENT_AT = 18,
	UDP_LENGTH_AT = 4,
	UDP_CHECKSUM_AT = 6,
};

enum { IP4_DONT_FRAGMENT = 0x40 }; /* in the byte at IP4_FRAGMENT_AT */

enum tcp_flag {
	TCP_FIN = 0x01,
	TCP_SYN = 0x02,
	TCP_RST = 0x04,
	TCP_PSH = 0x08,
	TCP_ACK = 0x10,
	TCP_URG = 0x20,
	TCP_ECE = 0x40,
	TCP_CWR = 0x80,
};
