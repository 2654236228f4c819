/* The functions and the service that module.c's tables name in addition to the folders' headers. */
#ifndef CHAT_MODULE_H
#define CHAT_MODULE_H

#include <busbar/busbar.h>

/* state.c */
int chat_open(struct bb_host *host, void **state);
void chat_close(struct bb_host *host, void *state);

/* service.c */
extern const struct bb_conversations chat_conversations;

#endif
