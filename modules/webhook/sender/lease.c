/*
 * The lease of this process: a row in webhook_host, whose id is in every delivery that it owns.
 *
 * The row's time is renewed every three seconds. A host counts as dead when its row is ten seconds
 * old; or at once if it ran on this machine (same boot, same process namespace) and the kernel
 * reports that no process has its number (ESRCH). So a host that was killed and restarted finds its
 * own deliveries. Nothing else counts as death: a file of /proc that cannot be opened may be hidden
 * (ProtectProc=invisible, another user), or descriptors may be used up.
 *
 * The dead host's row is deleted, and its deliveries lose their owner. A host that was only
 * suspended finds its row deleted, drops everything in memory and takes a new id; statements that
 * it still runs with the old id have no effect. It starts no attempt once its last successful
 * heartbeat is eight seconds old, counted from before the heartbeat was sent.
 *
 * An advisory lock would need a session for the whole life of the process and would be lost with
 * it, although deliveries can be sent without it.
 */
#include "modules/webhook/sender/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define TEND_MS 3000
#define AGAIN_MS 500
#define SWEEP_ROUNDS 2 /* orphans are searched in every second round, and after a death */
#define HOSTS_MAX 256

/* One row per other host with this host's row `me`: $2 is the machine. */
#define HOSTS                                                                                      \
    " SELECT me.id, (busbar_pause_reason() IS NOT NULL)::int, o.id, o.process,"                    \
    " o.machine = $2::text AND o.machine <> '', o.heartbeat_at < now() - interval '10 s'"          \
    " FROM me LEFT JOIN webhook_host o ON o.id <> me.id ORDER BY o.id LIMIT 256"
enum { HOST_ME, HOST_PAUSED, HOST_ID, HOST_PROCESS, HOST_HERE, HOST_SILENT };

static const struct bb_sql join = {
    "WITH me AS (INSERT INTO webhook_host (machine, process) VALUES ($2::text, $1::text)"
    " RETURNING id)" HOSTS,
    BB_SQL_WRITE,
};
static const struct bb_sql renew = {
    "WITH me AS (UPDATE webhook_host SET heartbeat_at = now(), counters = $3::jsonb"
    " WHERE id = $1::bigint RETURNING id)" HOSTS,
    BB_SQL_WRITE,
};
static const struct bb_sql bury = {
    "DELETE FROM webhook_host WHERE id = ANY($1::bigint[])"
    " AND ((machine = $2::text AND machine <> '') OR heartbeat_at < now() - interval '10 s')",
    BB_SQL_WRITE,
};
/*
 * Releases the deliveries of owners without a row; finds the owners with one step in the index for
 * each.
 */
static const struct bb_sql orphan = {
    "WITH RECURSIVE o(owner) AS ("
    "(SELECT owner FROM webhook_delivery WHERE state = 'queued' AND owner IS NOT NULL"
    " ORDER BY owner LIMIT 1)"
    " UNION ALL SELECT (SELECT d.owner FROM webhook_delivery d WHERE d.state = 'queued'"
    " AND d.owner > o.owner ORDER BY d.owner LIMIT 1) FROM o WHERE o.owner IS NOT NULL)"
    ", freed AS (UPDATE webhook_delivery d SET owner = NULL WHERE d.state = 'queued'"
    " AND d.owner = ANY(ARRAY(SELECT o.owner FROM o WHERE o.owner IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM webhook_host h WHERE h.id = o.owner))) RETURNING 1)"
    " SELECT EXISTS (SELECT FROM freed)::int",
    BB_SQL_WRITE,
};
static const struct bb_sql leave_deliveries = {
    "UPDATE webhook_delivery SET owner = NULL WHERE owner = $1::bigint AND state = 'queued'",
    BB_SQL_WRITE,
};
static const struct bb_sql leave_host = {
    "DELETE FROM webhook_host WHERE id = $1::bigint",
    BB_SQL_WRITE,
};

struct tending {
    struct db_task db_task;
    int64_t me; /* 0: to join */
    int64_t sent_ms;
    unsigned pauses;
    bool lost, paused;
    bool sweeps,
        orphans; /* whether to look for orphans; whether there may be deliveries of theirs */
    char machine[128], process[64], counters[256];
    int64_t webhooks[WEBHOOK_STATES]; /* the first is negative: unknown */
    int64_t expanding, expanding_ms;  /* events to be expanded, and the age of the oldest */
};

/* ---- identity of this process --------------------------------------------------------------- */

static void describe(struct tending *tending)
{
    char boot[64] = "", space[48] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);

    if (file) {
        if (!fgets(boot, sizeof(boot), file))
            boot[0] = '\0';
        fclose(file);
    }
    boot[strcspn(boot, "\n")] = '\0';
    if (length > 0 && boot[0]) /* else the machine is unknown: "" */
        snprintf(tending->machine, sizeof(tending->machine), "%s %s", boot, space);
    snprintf(tending->process, sizeof(tending->process), "%ld", (long)getpid());
}

/* Returns whether no process of this machine has the number. In doubt, returns false. */
static bool gone(const char *process)
{
    long number = strtol(process, NULL, 10);

    return number > 0 && number <= INT_MAX && kill((pid_t)number, 0) && errno == ESRCH;
}

/* ---- on a loop ------------------------------------------------------------------------------ */

static int bury_dead(struct bb_request *rq, const struct bb_rows *rows, struct tending *tending)
{
    int64_t dead[HOSTS_MAX];
    size_t count = 0;

    for (size_t row = 0; row < bb_count(rq, rows) && count < HOSTS_MAX; row++) {
        int64_t host = bb_cell_int(rq, rows, row, HOST_ID); /* 0: there is no other */
        bool here = bb_cell_int(rq, rows, row, HOST_HERE);

        if (host && (bb_cell_int(rq, rows, row, HOST_SILENT) ||
                     (here && gone(bb_cell(rq, rows, row, HOST_PROCESS)))))
            dead[count++] = host;
    }
    if (!count)
        return 0;
    bb_log(rq, BB_WARN, "deliveries of dead hosts are taken over: hosts %zu", count);
    tending->sweeps = true;
    return bb_query(rq, &bury, BB_ARGS(bb_ints(dead, count), bb_t(tending->machine))) ? 0 : -1;
}

const struct bb_sql sender_states_sql = {
    "SELECT count(*) FILTER (WHERE active AND admitted),"
    " count(*) FILTER (WHERE NOT active AND admitted), count(*) FILTER (WHERE NOT admitted),"
    " (SELECT count(*) FROM webhook_expansion),"
    " (SELECT coalesce(floor(extract(epoch FROM now() - min(queued_at)) * 1000), 0)::bigint"
    " FROM webhook_expansion) FROM webhook_hook",
    BB_SQL_LONG,
};

static void count_webhooks(struct bb_request *rq, struct tending *tending)
{
    const struct bb_rows *rows = bb_query(rq, &sender_states_sql, BB_NO_ARGS);

    for (size_t i = 0; rows && i < WEBHOOK_STATES; i++)
        tending->webhooks[i] = bb_cell_int(rq, rows, 0, i);
    if (rows) {
        tending->expanding = bb_cell_int(rq, rows, 0, WEBHOOK_STATES);
        tending->expanding_ms = bb_cell_int(rq, rows, 0, WEBHOOK_STATES + 1);
    }
}

static void tend_work(struct bb_request *rq, struct db_task *db_task)
{
    struct tending *tending = BB_CONTAINER_OF(db_task, struct tending, db_task);
    const struct bb_rows *rows =
        tending->me
            ? bb_query(rq, &renew,
                       BB_ARGS(bb_i(tending->me), bb_t(tending->machine), bb_t(tending->counters)))
            : bb_query(rq, &join, BB_ARGS(bb_t(tending->process), bb_t(tending->machine)));

    if (!rows)
        return;
    db_task->ok = true;
    tending->lost = bb_count(rq, rows) == 0;
    if (tending->lost)
        return;
    tending->me = bb_cell_int(rq, rows, 0, HOST_ME);
    tending->paused = bb_cell_int(rq, rows, 0, HOST_PAUSED);
    if (bury_dead(rq, rows, tending) || !tending->sweeps)
        return;
    rows = bb_query(rq, &orphan, BB_NO_ARGS); /* if it fails, the next rounds try again */
    tending->orphans = tending->orphans || !rows || bb_cell_int(rq, rows, 0, 0);
    count_webhooks(rq, tending);
}

/* ---- on the worker's thread ----------------------------------------------------------------- */

static void set_host(struct sender *sender, int64_t id)
{
    sender->me = id;
    pthread_mutex_lock(&sender->lock);
    sender->host_id = id;
    pthread_mutex_unlock(&sender->lock);
}

void lease_lost(struct sender *sender)
{
    bb_host_log(sender->host, BB_WARN,
                "this host lost its lease: another host took its deliveries");
    set_host(sender, 0);
    pthread_mutex_lock(&sender->lock);
    sender->counters.lost_leases++;
    pthread_mutex_unlock(&sender->lock);
    delivery_drop_all(sender);
    pairs_free(&sender->suspects);
    pairs_free(&sender->release);
}

static void note_paused(struct sender *sender, const struct tending *tending)
{
    pthread_mutex_lock(&sender->lock);
    if (tending->pauses == sender->pauses) /* otherwise a newer state was received meanwhile */
        sender->paused = tending->paused;
    pthread_mutex_unlock(&sender->lock);
}

static void note_webhooks(struct sender *sender, const struct tending *tending)
{
    pthread_mutex_lock(&sender->lock);
    if (tending->webhooks[0] >= 0) {
        memcpy(sender->counters.webhooks, tending->webhooks, sizeof(tending->webhooks));
        sender->counters.expanding = tending->expanding;
        sender->expanding_ms = tending->expanding_ms;
    }
    pthread_mutex_unlock(&sender->lock);
}

static void tend_back(struct sender *sender, struct db_task *db_task)
{
    struct tending *tending = BB_CONTAINER_OF(db_task, struct tending, db_task);

    sender->tending = false;
    sender->tend_at =
        db_task->ok ? sender_beat(sender->now_ms, TEND_MS) : sender->now_ms + AGAIN_MS;
    if (!db_task->ok)
        return;
    if (tending->lost) {
        lease_lost(sender);
        sender->tend_at = sender->now_ms;
        return;
    }
    note_paused(sender, tending);
    note_webhooks(sender, tending);
    sender->lease_until = tending->sent_ms + SENDER_LEASE_MS;
    if (sender->me != tending->me)
        set_host(sender, tending->me);
    if (tending->orphans)
        sender->scan_unowned_at = sender->now_ms;
}

static void drop(struct db_task *db_task)
{
    free(db_task);
}

static void write_counters(struct sender *sender, struct tending *tending)
{
    struct sender_counters counters;

    sender_count(sender, &counters);
    snprintf(tending->counters, sizeof(tending->counters),
             "{\"waiting\":%" PRId64 ",\"inFlight\":%" PRId64 ",\"delivered\":%" PRId64
             ",\"retried\":%" PRId64 ",\"abandoned\":%" PRId64 ",\"lostLeases\":%" PRId64 "}",
             counters.waiting, counters.in_flight, counters.delivered, counters.retried,
             counters.abandoned, counters.lost_leases);
}

void lease_tend(struct sender *sender)
{
    if (sender->tending || sender->leaving || sender->now_ms < sender->tend_at)
        return;
    struct tending *tending = calloc(1, sizeof(*tending));

    if (!tending) {
        sender->tend_at = sender->now_ms + AGAIN_MS;
        return;
    }
    tending->db_task = (struct db_task){.work = tend_work, .back = tend_back, .drop = drop};
    tending->me = sender->me;
    tending->sent_ms = sender->now_ms;
    tending->orphans = !sender->me;
    tending->sweeps = !sender->me || sender->tends++ % SWEEP_ROUNDS == 0;
    tending->webhooks[0] = -1;
    describe(tending);
    write_counters(sender, tending);
    int64_t lag_ms = subscriptions_lag(sender);

    pthread_mutex_lock(&sender->lock);
    sender->counters.lag_ms = lag_ms > sender->expanding_ms ? lag_ms : sender->expanding_ms;
    tending->pauses = sender->pauses;
    pthread_mutex_unlock(&sender->lock);
    sender->tending = true;
    db_task_send(sender, &tending->db_task);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void leave_work(struct bb_request *rq, struct db_task *db_task)
{
    struct tending *tending = BB_CONTAINER_OF(db_task, struct tending, db_task);

    db_task->ok = bb_query(rq, &leave_deliveries, BB_ARGS(bb_i(tending->me))) &&
                  bb_query(rq, &leave_host, BB_ARGS(bb_i(tending->me)));
    if (db_task->ok)
        webhook_tell_queued(rq);
}

static void leave_back(struct sender *sender, struct db_task *db_task)
{
    (void)db_task;
    sender->tending = false;
}

/* Gives up the unsent deliveries at once, so that another host continues with them. */
void lease_end(struct sender *sender)
{
    struct tending *tending = sender->me ? calloc(1, sizeof(*tending)) : NULL;

    if (!tending)
        return;
    tending->db_task = (struct db_task){.work = leave_work, .back = leave_back, .drop = drop};
    tending->me = sender->me;
    sender->tending = true;
    db_task_send(sender, &tending->db_task);
}
