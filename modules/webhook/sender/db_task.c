/* Database tasks: work on the host's loops for the sender's thread, and the lists they carry. */
#include "modules/webhook/sender/internal.h"

#define FIRST_ROOM 64

/* Runs on a loop. */
static void run(struct bb_request *rq, void *arg)
{
    struct db_task *db_task = arg;

    db_task->work(rq, db_task);
}

static void come_back(struct db_task *db_task)
{
    struct sender *sender = db_task->sender;

    pthread_mutex_lock(&sender->lock);
    db_task->next = sender->db_tasks;
    sender->db_tasks = db_task;
    pthread_mutex_unlock(&sender->lock);
}

/*
 * The sender still exists: it is freed after the generation's last request has ended. A task that
 * ended early, because memory ran out, has failed, whatever it reported before.
 */
static void ended(void *arg, bool whole)
{
    struct db_task *db_task = arg;
    struct bb_host *host = db_task->sender->host;

    db_task->ok = db_task->ok && whole;
    come_back(db_task);
    bb_wake(host, "sender");
}

void db_task_send(struct sender *sender, struct db_task *db_task)
{
    db_task->sender = sender;
    db_task->ok = false;
    sender->away++;
    if (bb_run_then(sender->host, run, ended, db_task))
        come_back(db_task);
}

static int grow(struct pairs *pairs)
{
    size_t room = pairs->room ? 2 * pairs->room : FIRST_ROOM;
    int64_t *webhooks = realloc(pairs->webhooks, room * sizeof(*webhooks));

    if (!webhooks)
        return -1;
    pairs->webhooks = webhooks;
    int64_t *ids = realloc(pairs->ids, room * sizeof(*ids));

    if (!ids)
        return -1;
    pairs->ids = ids;
    pairs->room = room;
    return 0;
}

int pairs_add(struct pairs *pairs, int64_t webhook, int64_t id)
{
    if (pairs->count == pairs->room && grow(pairs))
        return -1;
    pairs->webhooks[pairs->count] = webhook;
    pairs->ids[pairs->count++] = id;
    return 0;
}

void pairs_free(struct pairs *pairs)
{
    free(pairs->webhooks);
    free(pairs->ids);
    *pairs = (struct pairs){0};
}
