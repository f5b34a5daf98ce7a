/* The parts of the linux back end. */
#pragma once
#include "os/net_priv.h"

int os_linux_tun_open(const struct os_tun_config *c, struct os_tun **ret, struct buf *error);
int os_linux_tun_read(struct os_tun *t, uint8_t *memory, struct tun_rx *ret);
int os_linux_tun_offload(struct os_tun *t, const struct os_tun_config *c);
int os_linux_tun_write(struct os_tun *t, const struct tun_tx *frame);
