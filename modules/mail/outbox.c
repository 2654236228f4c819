/* The outbox: the service "mail" writes it, and a worker on each host sends its mails. */
#include <curl/curl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modules/mail/mail.h"
#include "modules/mail/message.h"

#define SEAL_PURPOSE "mail"

enum {
    IDLE_MS = 5000,      /* between two queries of the outbox; bb_wake() shortens it */
    LEAVE_MS = 2000,     /* time before a worker's deadline at which it ends the SMTP session */
    LEASE_MARGIN_S = 10, /* added to the lease of a mail, which is twice the SMTP timeout */
    RETRY_MAX_S = 4 * 3600,
    SETTLE_ATTEMPTS = 3,
    CONNECT_MS = 10000,
    TO_MAX = 254 /* bytes of an address */
};

/* ---- the service ---- */

struct queued {
    struct mail *mail;
    const char *id, *kind;
    int index; /* of the statement in its transaction */
};

static void outbox_queued(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct queued *queued = arg;
    struct bb_host *host = queued->mail->host;
    const struct bb_rows *rows = bb_unit_rows(rq, tx, queued->index);

    if (!rows || !bb_cell_int(rq, rows, 0, 0))
        return;
    if (bb_cell_int(rq, rows, 0, 1)) {
        bb_metric_add(host, MAIL_METRIC_MAILS, MAIL_QUEUED, 1);
        bb_wake(host, MAIL_WORKER);
        return;
    }
    bb_metric_add(host, MAIL_METRIC_MAILS, MAIL_DROPPED, 1);
    bb_host_log(host, BB_WARN, "mail dropped, because the outbox is full: kind=%s", queued->kind);
}

/* Returns the message, which lives as long as the request; NULL: out of memory. */
static char *outbox_message(struct bb_request *rq, const struct mail *mail, const char *id,
                            const struct bb_mail_message *message, size_t *length)
{
    const struct mail_settings *settings = mail->settings;
    const struct mail_draft draft = {
        .from = settings->from,
        .from_name = settings->from_name,
        .to = message->to,
        .id = id,
        .at_s = (time_t)(bb_wall_ms(mail->host) / 1000),
        .text = mail_text_for(&message->texts, message->language, settings->language),
        .values = message->values,
    };
    char *text = mail_message(&draft, length);

    if (text)
        bb_defer(rq, free, text);
    return text;
}

static int outbox_queue(void *state, struct bb_request *rq, struct bb_tx *tx,
                        const struct bb_mail_message *message)
{
    /* $1 id, $2 kind, $3 to, $4 message, $5 lifetime in s, $6 mail.queue, $7 key, $8 every_s */
    static const struct bb_sql insert = {
        "WITH k AS (INSERT INTO mail_key (key, until) "
        "SELECT $7, now() + make_interval(secs => $8::bigint) WHERE $7::text IS NOT NULL "
        "ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE mail_key.until <= now() "
        "RETURNING key), "
        "w AS (SELECT $7::text IS NULL OR EXISTS (SELECT FROM k) AS wanted), "
        "m AS (INSERT INTO mail_outbox (id, kind, recipient, message, expires) "
        "SELECT $1::uuid, $2, $3, $4::bytea, now() + make_interval(secs => $5::bigint) FROM w "
        "WHERE wanted AND "
        "(SELECT count(*) FROM (SELECT FROM mail_outbox LIMIT $6::bigint) o) < $6::bigint "
        "RETURNING id) SELECT wanted, EXISTS (SELECT FROM m) FROM w",
        0};
    struct mail *mail = state;
    struct queued *queued = bb_alloc(rq, sizeof(*queued));
    int64_t life_s = message->life_s ? message->life_s : mail->settings->max_age * 3600;
    unsigned char *sealed;
    size_t length, sealed_length;
    bool good = message->texts.count && strchr(message->to, '@') && strlen(message->to) <= TO_MAX;

    /* No character may end the SMTP command that contains the address, or begin a header. */
    for (const char *at = message->to; *at; at++)
        good = good && (unsigned char)*at > ' ' && *at != 0x7f && !strchr("<>,\"\\", *at);
    if (!good) {
        bb_metric_add(mail->host, MAIL_METRIC_MAILS, MAIL_DROPPED, 1);
        bb_host_log(mail->host, BB_ERROR, "mail dropped, because its address is invalid: kind=%s",
                    message->kind);
        return 0;
    }
    *queued = (struct queued){.mail = mail, .id = bb_new_uuid(rq), .kind = message->kind};
    const char *text = outbox_message(rq, mail, queued->id, message, &length);

    if (!text || bb_seal(mail->host, text, length, SEAL_PURPOSE, &sealed, &sealed_length)) {
        bb_no_memory(rq);
        return -1;
    }
    bb_defer(rq, free, sealed);
    queued->index =
        bb_add(rq, tx, &insert,
               BB_ARGS(bb_t(queued->id), bb_t(message->kind), bb_t(message->to),
                       bb_bytes(sealed, sealed_length), bb_i(life_s), bb_i(mail->settings->queue),
                       bb_t(message->key), bb_i(message->every_s)));
    if (queued->index < 0)
        return -1;
    bb_after(rq, tx, outbox_queued, queued);
    return 0;
}

const struct bb_mail mail_service = {.size = sizeof(mail_service), .queue = outbox_queue};

/* ---- one message to the SMTP server, with libcurl, on the calling thread ---- */

enum smtp_outcome {
    SMTP_SENT,
    SMTP_REFUSED,    /* the server refuses this mail for good */
    SMTP_DEFERRED,   /* the server does not accept this mail now */
    SMTP_UNREACHABLE /* no connection, no TLS, or no login: this concerns all mails */
};

struct smtp_call {
    const struct mail_settings *settings;
    const char *to, *message;
    size_t length, sent;        /* of the message; `sent` is 0 at first */
    bool (*is_over)(void *arg); /* the call ends early when this function returns true */
    void *arg;
    char detail[CURL_ERROR_SIZE]; /* result: the reason of a failure, without texts of the mail */
};

static size_t smtp_read(char *to, size_t size, size_t count, void *arg)
{
    struct smtp_call *call = arg;
    size_t left = call->length - call->sent, room = size * count;

    if (left > room)
        left = room;
    memcpy(to, call->message + call->sent, left);
    call->sent += left;
    return left;
}

static size_t smtp_discard(char *data, size_t size, size_t count, void *arg)
{
    (void)data, (void)arg;
    return size * count;
}

static int smtp_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                         curl_off_t up)
{
    const struct smtp_call *call = arg;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return call->is_over && call->is_over(call->arg);
}

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))

/* Sends a message. Blocks the thread for up to settings->timeout seconds. */
static enum smtp_outcome smtp_send(struct smtp_call *call)
{
    const struct mail_settings *settings = call->settings;
    bool ipv6 = strchr(settings->server, ':') != NULL, at_once = strcmp(settings->tls, "tls") == 0;
    int port = at_once ? 465 : strcmp(settings->tls, "none") ? 587 : 25;
    char url[320], from[264], address[264];
    CURL *easy = curl_easy_init();
    CURLcode bad = CURLE_OK;
    long status = 0;

    snprintf(url, sizeof(url), "%s://%s%s%s:%d", at_once ? "smtps" : "smtp", ipv6 ? "[" : "",
             settings->server, ipv6 ? "]" : "", settings->port ? (int)settings->port : port);
    snprintf(from, sizeof(from), "<%s>", settings->from);
    snprintf(address, sizeof(address), "<%s>", call->to);
    struct curl_slist *to = curl_slist_append(NULL, address);

    if (!easy || !to)
        bad = CURLE_OUT_OF_MEMORY;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_URL, url);
    SET(CURLOPT_USE_SSL,
        strcmp(settings->tls, "starttls") ? (long)CURLUSESSL_NONE : (long)CURLUSESSL_ALL);
    if (*settings->authorities) {
        SET(CURLOPT_CAINFO, settings->authorities);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (*settings->user) {
        SET(CURLOPT_USERNAME, settings->user);
        SET(CURLOPT_PASSWORD, settings->password);
    }
    SET(CURLOPT_MAIL_FROM, from);
    SET(CURLOPT_MAIL_RCPT, to);
    SET(CURLOPT_UPLOAD, 1L);
    SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->length);
    SET(CURLOPT_READFUNCTION, smtp_read);
    SET(CURLOPT_READDATA, call);
    SET(CURLOPT_WRITEFUNCTION, smtp_discard);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, smtp_progress);
    SET(CURLOPT_XFERINFODATA, call);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(CURLOPT_TIMEOUT, (long)settings->timeout);
    SET(CURLOPT_ERRORBUFFER, call->detail);
    if (!bad)
        bad = curl_easy_perform(easy);
    if (easy)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(to);
    if (bad == CURLE_OK)
        return SMTP_SENT;
    if (!*call->detail)
        snprintf(call->detail, sizeof(call->detail), "%s", curl_easy_strerror(bad));
    /*
     * Refusing RCPT or the message concerns only this mail. Refusing MAIL or AUTH concerns all
     * mails. Only libcurl's text shows a refused RCPT. A message is refused after it was sent.
     */
    bool mine = strncmp(call->detail, "RCPT failed", 11) == 0 ||
                (call->length && call->sent == call->length);

    if (!mine || status < 400)
        return SMTP_UNREACHABLE;
    return status < 500 ? SMTP_DEFERRED : SMTP_REFUSED;
}

/* ---- the worker ---- */

/* A mail that the worker has taken from the outbox. */
struct taken {
    struct mail *mail;
    sem_t done; /* posted when the work on the event loop has ended */
    bool found; /* there is a mail to send */
    bool again; /* query the outbox again at once */
    char id[40], kind[64], to[TO_MAX + 1];
    unsigned char *message; /* to be freed with free() */
    int64_t attempts;
    enum smtp_outcome outcome;
    struct smtp_call call;
};

/* Stores a result. Returns 0, or -1 after SETTLE_ATTEMPTS failures: then the mail is sent again. */
static int outbox_settle(struct bb_request *rq, const struct bb_sql *sql,
                         const struct bb_value *values, size_t count)
{
    for (int attempt = 1; attempt <= SETTLE_ATTEMPTS; attempt++) {
        if (bb_query(rq, sql, values, count))
            return 0;
        bb_log(rq, BB_WARN, "cannot store the result of a mail: %s", bb_sqlstate(rq));
        bb_sleep(rq, 1000);
    }
    return -1;
}

static int outbox_delete(struct bb_request *rq, const char *id)
{
    static const struct bb_sql delete = {"DELETE FROM mail_outbox WHERE id = $1::uuid",
                                         BB_SQL_WRITE};

    return outbox_settle(rq, &delete, BB_ARGS(bb_t(id)));
}

static void outbox_abandon(struct bb_request *rq, const struct taken *taken, const char *why)
{
    bb_log(rq, BB_WARN, "mail abandoned: id=%s kind=%s attempts=%lld: %s", taken->id, taken->kind,
           (long long)taken->attempts, why);
    bb_metric_add(rq->host, MAIL_METRIC_MAILS, MAIL_ABANDONED, 1);
    outbox_delete(rq, taken->id);
}

/* Takes the next mail that is due, unless work is paused. Runs on an event loop. */
static void outbox_take(struct bb_request *rq, void *arg)
{
    /* $1: seconds until another host may send the mail */
    static const struct bb_sql take = {
        "UPDATE mail_outbox SET attempts = attempts + 1, "
        "due = now() + make_interval(secs => $1::bigint) WHERE id = (SELECT id FROM mail_outbox "
        "WHERE due <= now() AND busbar_pause_reason() IS NULL ORDER BY due LIMIT 1 "
        "FOR UPDATE SKIP LOCKED) RETURNING id, kind, recipient, message, attempts, expires <= "
        "now()",
        BB_SQL_WRITE};
    /* counts the mails, and deletes keys that expired at least a day ago */
    static const struct bb_sql count = {
        "WITH gone AS (DELETE FROM mail_key WHERE key IN (SELECT key FROM mail_key "
        "WHERE until < now() - interval '1 day' LIMIT 1000)) SELECT count(*) FROM mail_outbox",
        BB_SQL_WRITE};
    struct taken *taken = arg;
    struct mail *mail = taken->mail;
    const struct bb_rows *rows =
        bb_query(rq, &take, BB_ARGS(bb_i(2 * mail->settings->timeout + LEASE_MARGIN_S)));

    if (!rows)
        bb_log(rq, BB_WARN, "cannot read the outbox: %s", bb_sqlstate(rq));
    if (!rows || !bb_count(rq, rows)) {
        rows = bb_query(rq, &count, BB_NO_ARGS);
        if (rows)
            atomic_store(&mail->waiting, bb_cell_int(rq, rows, 0, 0));
        return;
    }
    snprintf(taken->id, sizeof(taken->id), "%s", bb_cell(rq, rows, 0, 0));
    snprintf(taken->kind, sizeof(taken->kind), "%s", bb_cell(rq, rows, 0, 1));
    snprintf(taken->to, sizeof(taken->to), "%s", bb_cell(rq, rows, 0, 2));
    taken->attempts = bb_cell_int(rq, rows, 0, 4);
    size_t room = strlen(bb_cell(rq, rows, 0, 3)) / 2;
    unsigned char *sealed = bb_alloc(rq, room + 1);
    int64_t length = bb_cell_bytes(bb_cell(rq, rows, 0, 3), sealed, room);
    int failed = -1;

    if (length >= 0) /* bb_unseal() returns -1 if the key is missing, -2 if out of memory */
        failed = bb_unseal(rq->host, sealed, (size_t)length, SEAL_PURPOSE, &taken->message,
                           &taken->call.length);
    if (bb_cell_int(rq, rows, 0, 5)) {
        taken->attempts--;
        outbox_abandon(rq, taken, "it waited too long");
        taken->again = true;
    } else if (failed == -1) {
        /* another host that has the key takes the mail when the lease has ended */
        bb_log(rq, BB_WARN, "mail not sent, because secrets.keys lacks its key: id=%s kind=%s",
               taken->id, taken->kind);
        bb_metric_add(rq->host, MAIL_METRIC_MAILS, MAIL_RETRIED, 1);
        taken->again = true;
    }
    taken->found = !taken->again && !failed;
}

/* Stores the result of an attempt to send the mail. Runs on an event loop. */
static void outbox_record(struct bb_request *rq, void *arg)
{
    /* The mail becomes due no later than it expires, so that outbox_take() abandons it in time. */
    static const struct bb_sql delay = {
        "UPDATE mail_outbox SET due = least(now() + make_interval(secs => $2::bigint), expires) "
        "WHERE id = $1::uuid",
        BB_SQL_WRITE};
    const struct taken *taken = arg;
    int64_t delay_s = taken->mail->settings->retry_delay;

    switch (taken->outcome) {
    case SMTP_SENT:
        bb_log(rq, BB_INFO, "mail sent: id=%s kind=%s", taken->id, taken->kind);
        bb_metric_add(rq->host, MAIL_METRIC_MAILS, MAIL_SENT, 1);
        outbox_delete(rq, taken->id);
        return;
    case SMTP_REFUSED:
        outbox_abandon(rq, taken, taken->call.detail);
        return;
    default:
        for (int64_t i = 1; i < taken->attempts && delay_s < RETRY_MAX_S; i++)
            delay_s *= 2;
        if (delay_s > RETRY_MAX_S)
            delay_s = RETRY_MAX_S;
        bb_log(rq, BB_WARN, "mail not sent, retry in %lld s: id=%s kind=%s attempts=%lld: %s",
               (long long)delay_s, taken->id, taken->kind, (long long)taken->attempts,
               taken->call.detail);
        bb_metric_add(rq->host, MAIL_METRIC_MAILS, MAIL_RETRIED, 1);
        outbox_settle(rq, &delay, BB_ARGS(bb_t(taken->id), bb_i(delay_s)));
    }
}

static void outbox_done(void *arg, bool whole)
{
    struct taken *taken = arg;

    taken->found = taken->found && whole;
    sem_post(&taken->done);
}

/* Runs work(rq, taken) on an event loop, and waits until it has ended. */
static void outbox_run(struct taken *taken, void (*work)(struct bb_request *, void *))
{
    if (bb_run_then(taken->mail->host, work, outbox_done, taken))
        return;
    while (sem_wait(&taken->done))
        ;
}

static bool outbox_is_over(void *arg)
{
    struct bb_worker_context *context = arg;

    return bb_stopping(context) && bb_leave_ms(context) < LEAVE_MS;
}

void mail_work(struct bb_worker_context *context)
{
    struct pollfd wake = {.fd = context->wake_fd, .events = POLLIN};
    uint64_t wakes;

    while (!bb_stopping(context)) {
        struct taken taken = {.mail = context->host->state};

        taken.call = (struct smtp_call){.settings = taken.mail->settings,
                                        .to = taken.to,
                                        .is_over = outbox_is_over,
                                        .arg = context};
        sem_init(&taken.done, 0, 0);
        outbox_run(&taken, outbox_take);
        if (taken.found) {
            taken.call.message = (const char *)taken.message;
            taken.outcome = smtp_send(&taken.call);
            taken.again = taken.outcome != SMTP_UNREACHABLE;
            outbox_run(&taken, outbox_record);
        }
        free(taken.message);
        sem_destroy(&taken.done);
        if (!taken.again && !bb_stopping(context) && poll(&wake, 1, IDLE_MS) > 0 &&
            read(wake.fd, &wakes, sizeof(wakes)) < 0)
            bb_host_log(context->host, BB_DEBUG, "cannot drain the worker's eventfd");
    }
}

/* ---- the command ---- */

int mail_command_test(struct bb_request *rq)
{
    static const struct bb_mail_text texts[] = {
        {"en", "{service}: test", "This is a test. Mails from {service} reach this address.\n"},
        {"de", "{service}: Test",
         "Dies ist ein Test. Mails von {service} erreichen diese Adresse.\n"},
    };
    const struct mail *mail = rq->state;
    const struct bb_mail_message message = {
        .size = sizeof(message), .to = bb_text(rq, "to"), .texts = BB_TABLE(texts)};
    struct smtp_call call = {.settings = mail->settings, .to = message.to};

    call.message = outbox_message(rq, mail, bb_new_uuid(rq), &message, &call.length);
    if (!call.message) {
        bb_print(rq, "out of memory\n");
        return 1;
    }
    /* This blocks the event loop, but the loop of a command has no other work. */
    if (smtp_send(&call) != SMTP_SENT) {
        bb_print(rq, "not sent to %s: %s\n", message.to, call.detail);
        return 1;
    }
    bb_print(rq, "sent to %s\n", message.to);
    return 0;
}
