/*
 * The options that all requests of the sender have in common, and the callbacks for a response: see
 * transfer_sockets.h.
 */
#include <string.h>
#include <strings.h>
#include <time.h>

#include "modules/webhook/http/retry_time.h"
#include "modules/webhook/http/transfer_sockets.h"

/* ---- responses ------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    size_t length = size * count;

    if (transfer->body_bytes < TRANSFER_KEPT) {
        size_t room = TRANSFER_KEPT - transfer->body_bytes;

        memcpy(transfer->answer + transfer->body_bytes, data, length < room ? length : room);
    }
    transfer->body_bytes += length;
    transfer->cut = transfer->body_bytes > TRANSFER_BODY_MAX;
    return transfer->cut ? 0 : length;
}

static bool begins(const char *line, size_t length, const char *with)
{
    return length > strlen(with) && !strncasecmp(line, with, strlen(with));
}

/* Only a header of the final response counts, not of an earlier 1xx response, nor a trailer. */
static void heed_header(struct transfer *transfer, const char *line, size_t length)
{
    static const char name[] = "retry-after:";
    const char *space;

    if (transfer->headed)
        return;
    if (begins(line, length, "http/")) {
        space = memchr(line, ' ', length - 1);
        transfer->informational = space && space[1] == '1';
        transfer->retry_after_s = 0;
    } else if (line[0] == '\r' || line[0] == '\n') {
        transfer->headed = !transfer->informational;
    } else if (begins(line, length, name)) {
        transfer->retry_after_s =
            schedule_retry_after(line + strlen(name), length - strlen(name), (int64_t)time(NULL));
    }
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    size_t length = size * count;

    transfer->header_bytes += length;
    if (transfer->header_bytes > TRANSFER_HEADERS_MAX)
        return 0;
    if (length > 0)
        heed_header(transfer, data, length);
    return length;
}

/*
 * Called before a request is sent. If a kept-alive connection dies without a response, libcurl
 * sends the request again on another connection, up to five times; the receiver may have handled
 * each one. Only the schedule may decide about another attempt, so the transfer is aborted.
 */
static int on_sending(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct transfer *transfer = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    return ++transfer->sendings == 1 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* ---- options --------------------------------------------------------------------------------- */

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))

static CURLcode set_options(CURL *easy, const struct transfers *all)
{
    const struct transfers_settings *settings = &all->settings;
    const struct target_options options = {.timeout_ms = settings->timeout_ms,
                                           .idle_s = settings->idle_ms / 1000,
                                           .http2 = settings->http2};
    CURLcode bad = target_set_options(easy, &options);

    if (all->authorities)
        SET(CURLOPT_CAPATH, NULL);
    SET(CURLOPT_POST, 1L);
    return bad;
}

static CURLcode set_functions(CURL *easy, struct transfer *transfer)
{
    CURLcode bad = CURLE_OK;

    SET(CURLOPT_ERRORBUFFER, transfer->error);
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_PREREQFUNCTION, on_sending);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_OPENSOCKETFUNCTION, sockets_open);
    SET(CURLOPT_OPENSOCKETDATA, transfer);
    SET(CURLOPT_CLOSESOCKETFUNCTION, sockets_close);
    SET(CURLOPT_CLOSESOCKETDATA, transfer->all);
    return bad;
}
#undef SET

bool transfer_options_set(struct transfer *transfer)
{
    return !set_options(transfer->easy, transfer->all) && !set_functions(transfer->easy, transfer);
}
