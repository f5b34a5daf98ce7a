/* Accounts of a whole program, kept where calls cross from room to room (the linker wraps them):
 * blocks of memory, and what has been sealed under which key. For one thread; a program has one
 * set. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/tunnel.h"

struct books {
	int64_t blocks, bytes;    /* of w_alloc() and its kin, alive */
	uint64_t contexts, seals; /* AEAD contexts made, packets sealed */
	/* What may not be: packets sealed with an IV that the key has had, or that is not above the
	 * one before; keys that two contexts have sealed with. */
	uint64_t iv_again, key_shared;
	uint64_t keys_left; /* blocks freed with a key of an AEAD in them, while it is hunted */
	uint64_t accepted;  /* ESP packets taken in */
	uint64_t accepted_twice; /* ESP numbers that an SA has taken in again */
};

const struct books *books(void);
/* Forgets keys and faults; memory goes on. */
void books_reset(void);
/* In the next reload of a node the nth allocation fails, and no other. */
void books_fail_reload(uint64_t n);
/* Whether it came to that. */
bool books_failed(void);
/* From now on what is freed is searched for the last keys. */
void books_hunt_keys(void);
/* esp_ops(), watched. */
const struct tunnel_ops *books_ops(void);
/* Wrongs that are done on purpose, to see that they are found. */
enum books_wrong {
	BOOKS_RIGHT,
	BOOKS_NUMBER_AGAIN,
	BOOKS_ACCEPT_AGAIN,
	BOOKS_PLAIN,
	BOOKS_KEY_LEFT
};
void books_do_wrong(enum books_wrong w);
