#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "modules/device/store/s3.h"

enum { CONNECT_MS = 5000 };

/* The state of one request in progress. */
struct exchange {
    struct s3_request *request;
    CURL *curl;
    struct curl_slist *headers;
    int64_t sent;
    bool refused; /* `take` refused the response */
    size_t error_length;
    char error[S3_CODES_READ];
    char problem[CURL_ERROR_SIZE];
};

int64_t s3_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static CURL *take_handle(struct s3 *s3)
{
    CURL *curl = NULL;

    pthread_mutex_lock(&s3->lock);
    for (size_t i = 0; i < S3_THREADS && !curl; i++) {
        curl = s3->idle[i];
        s3->idle[i] = NULL;
    }
    pthread_mutex_unlock(&s3->lock);
    return curl ? curl : curl_easy_init();
}

/* The handle keeps its connections but nothing of the request. */
static void give_back(struct s3 *s3, CURL *curl)
{
    curl_easy_reset(curl);
    pthread_mutex_lock(&s3->lock);
    for (size_t i = 0; i < S3_THREADS && curl; i++) {
        if (s3->idle[i])
            continue;
        s3->idle[i] = curl;
        curl = NULL;
    }
    pthread_mutex_unlock(&s3->lock);
    curl_easy_cleanup(curl);
}

static size_t send_bytes(char *into, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = arg;
    const struct s3_request *request = exchange->request;
    int64_t left = request->length - exchange->sent;
    size_t room = size * count;
    ssize_t got = pread(request->file, into, (int64_t)room < left ? room : (size_t)left,
                        (off_t)exchange->sent);

    if (got < 0 || (!got && left))
        return CURL_READFUNC_ABORT;
    exchange->sent += got;
    return (size_t)got;
}

/* libcurl sends the content again if a kept connection turns out to be closed. */
static int send_again(void *arg, curl_off_t offset, int origin)
{
    struct exchange *exchange = arg;

    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_FAIL;
    exchange->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = arg;
    const struct s3_request *request = exchange->request;
    size_t length = size * count, room = sizeof(exchange->error) - exchange->error_length;
    long status = 0;

    curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && request->take) {
        exchange->refused = request->take(request->arg, bytes, length) != 0;
        return exchange->refused ? 0 : length;
    }
    if (room > length)
        room = length;
    memcpy(exchange->error + exchange->error_length, bytes, room);
    exchange->error_length += room;
    return length;
}

/* Allows no redirects, no proxy from the environment, and only HTTP(S). */
static int set_request(struct exchange *exchange)
{
    const struct s3_request *request = exchange->request;
    CURL *curl = exchange->curl;
    long left = (long)(request->until_ms - s3_now_ms());
    char line[96];

    snprintf(line, sizeof(line), "x-amz-content-sha256: %s", request->sha256);
    exchange->headers = curl_slist_append(NULL, line);
    if (!exchange->headers)
        return -1;
    CURLcode failed = curl_easy_setopt(curl, CURLOPT_URL, request->url);

    failed |= curl_easy_setopt(curl, CURLOPT_USERNAME, request->s3->access_key);
    failed |= curl_easy_setopt(curl, CURLOPT_PASSWORD, request->s3->secret_key);
    failed |= curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, request->s3->scope);
    failed |= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exchange->headers);
    if (request->file >= 0) {
        failed |= curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        failed |= curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->length);
        failed |= curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_bytes);
        failed |= curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        failed |= curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, send_again);
        failed |= curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
    } else {
        failed |= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    }
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    failed |= curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, exchange->problem);
    failed |= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    failed |= curl_easy_setopt(curl, CURLOPT_PROXY, "");
    failed |= curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    failed |= curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    failed |= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, left > 0 ? left : 1);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (*request->s3->ca) {
        /* by default Debian's libcurl trusts the system's directory in addition to a given file */
        failed |= curl_easy_setopt(curl, CURLOPT_CAINFO, request->s3->ca);
        failed |= curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
    return failed == CURLE_OK ? 0 : -1;
}

static int judge(struct exchange *exchange, CURLcode failed, char why[STORE_WHY])
{
    struct s3_request *request = exchange->request;
    const char *problem = exchange->problem;

    curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &request->status);
    if (request->status >= 300)
        s3_error_code(exchange->error, exchange->error_length, request->code);
    if (failed && exchange->refused) /* `take` has already set the reason */
        return -1;
    if (failed)
        snprintf(why, STORE_WHY, "%s: %.150s", request->method,
                 *problem ? problem : curl_easy_strerror(failed));
    else if (request->status < 200 || request->status > 299)
        snprintf(why, STORE_WHY, "%s: answered %ld%s%s", request->method, request->status,
                 *request->code ? " " : "", request->code);
    else
        return 0;
    return -1;
}

int s3_send(struct s3_request *request, char why[STORE_WHY])
{
    struct exchange exchange = {.request = request, .curl = take_handle(request->s3)};
    int failed = -1;

    request->status = 0;
    request->code[0] = '\0';
    if (exchange.curl && !set_request(&exchange))
        failed = judge(&exchange, curl_easy_perform(exchange.curl), why);
    else
        snprintf(why, STORE_WHY, "out of memory");
    curl_slist_free_all(exchange.headers);
    if (exchange.curl)
        give_back(request->s3, exchange.curl);
    return failed;
}
