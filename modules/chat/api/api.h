/*
 * The routes of chat, except the live stream, and the job that adds up unread counts. Each runs on
 * the fiber of its request.
 */
#ifndef CHAT_API_H
#define CHAT_API_H

#include "modules/chat/conversation/chat.h"

/*
 * post.c: fills a message from the request body. Returns 0, or the status of the 400 response sent.
 */
int chat_entry_read(struct bb_request *rq, struct chat_message *message);

/* post.c: receives notifications on CHAT_CHANNEL. */
void chat_heard(void *state, const char *payload);

/* unread.c: the job that adds up unread counts. */
void chat_add_up(struct bb_request *rq);

/* The routes. */
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
