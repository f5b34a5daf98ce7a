/* The SPIs of our own IKE SAs, kept by the control thread and looked at by the plane threads, so
 * that messages of SAs that exist are told from a flood (RFC 7296 2.6 asks for care with those).
 * What finds no room in the table is a stranger's: it goes through the token bucket, as it would
 * without a table. It says nothing about who sent a message. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct node_spis;

/* Makes an empty table. 0 or -ENOMEM. */
int node_spis_new(struct node_spis **ret);
/* Frees it, when nobody looks any more; NULL is fine. */
void node_spis_free(struct node_spis *s);
/* One thread: adds or removes the SPI (not 0) of one of our ends of an SA. s: struct node_spis. */
void node_spis_set(void *s, uint64_t own_spi, bool known);
/* Any thread: true when one of the two is known; our own end's is one of them. The form is that of
 * plane_config.ike_known. */
bool node_spis_know(const void *s, uint64_t spi_i, uint64_t spi_r);
