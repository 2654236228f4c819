/*
 * The routes of chat, but for the live stream, and the job that adds up what they count. Each runs
 * on the fiber of its request.
 */
#ifndef CHAT_API_H
#define CHAT_API_H

#include "modules/chat/conversation/chat.h"

/* entry.c: fills a message from the body; 0, or the status of the 400. */
int chat_entry_read(struct bb_request *rq, struct chat_message *message);

/* owner.c: whose conversation an Admin starts who names no organisation. 0, or the status. Parks.
 */
int chat_owner(struct bb_request *rq, const struct chat_facts *facts, int64_t *organisation);

/* share.c */
void chat_heard(void *state, const char *payload);

/* unread.c: the job that adds up. */
void chat_add_up(struct bb_request *rq);

/* The routes, a file each (unread.c has two). */
int chat_list(struct bb_request *rq);
int chat_find(struct bb_request *rq);
int chat_start(struct bb_request *rq);
int chat_post(struct bb_request *rq);
int chat_chain(struct bb_request *rq);
int chat_unread_count(struct bb_request *rq);
int chat_unread_devices(struct bb_request *rq);
int chat_read(struct bb_request *rq);
int chat_share(struct bb_request *rq);

#endif
