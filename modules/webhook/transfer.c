#include "transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <busbar/abi.h>

#include "config.h"
#include "schedule.h"

#define EVENTS 128
#define HEADERS 8
#define HEADER_ROOM 192

/* Beside EPOLLIN and EPOLLOUT in a mask. */
#define OWN 0x40  /* opened and closed through our callbacks */
#define IDLE 0x80 /* still registered, but libcurl does not want it now */

struct transfer {
    struct transfer *next; /* free ones */
    struct transfers *all;
    CURL *easy;
    void *arg;
    struct target_socket socket;
    struct curl_slist headers[HEADERS];
    char lines[HEADERS][HEADER_ROOM];
    char error[CURL_ERROR_SIZE];
    char answer[TRANSFER_KEPT];
    size_t body_bytes;
    size_t header_bytes;
    int64_t retry_after_s;
    bool cut; /* the body is longer than is read */
};

struct transfers {
    CURLM *multi;
    int epoll;
    int wake_fd; /* in the epoll, or -1 */
    struct target_guard guard;
    int64_t timeout_ms;
    void (*landed)(void *, struct transfer_result *);
    void *landed_arg;
    int64_t timer_at;     /* -1: none */
    unsigned char *masks; /* by descriptor: 0, or EPOLLIN and EPOLLOUT as registered */
    size_t mask_room;
    struct transfer *free_ones;
    struct transfer **list; /* all that were made */
    size_t count, room;
};

static int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int mask_reserve(struct transfers *all, int fd)
{
    size_t room = all->mask_room ? all->mask_room : 256;

    if ((size_t)fd < all->mask_room)
        return 0;
    while (room <= (size_t)fd)
        room *= 2;
    unsigned char *masks = realloc(all->masks, room);

    if (!masks)
        return -1;
    memset(masks + all->mask_room, 0, room - all->mask_room);
    all->masks = masks;
    all->mask_room = room;
    return 0;
}

static int watch(struct transfers *all, int fd, unsigned char mask)
{
    struct epoll_event event = {.events = mask, .data.fd = fd};
    unsigned char flags = all->masks[fd] & OWN, before = all->masks[fd] & (EPOLLIN | EPOLLOUT);
    int how = !mask ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    all->masks[fd] = flags | mask;
    return mask == before ? 0 : epoll_ctl(all->epoll, how, fd, &event);
}

/*
 * A socket that libcurl lets go of stays registered if it is a connection: mostly it is wanted
 * again at once. Should it be closed, close_socket() forgets it; should the server close it,
 * on_event() takes it out. libcurl's other sockets (its resolver's) are closed behind our back.
 */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct transfers *all = arg;
    unsigned char mask = 0;

    (void)easy;
    (void)socket_arg;
    if (mask_reserve(all, fd))
        return -1;
    if (what == CURL_POLL_REMOVE && (all->masks[fd] & OWN)) {
        all->masks[fd] |= IDLE;
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        mask |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        mask |= EPOLLOUT;
    return watch(all, fd, mask);
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = arg;
    curl_socket_t fd = target_open_socket(&transfer->socket, purpose, address);

    if (fd != CURL_SOCKET_BAD && !mask_reserve(transfer->all, fd))
        transfer->all->masks[fd] = OWN;
    return fd;
}

static int close_socket(void *arg, curl_socket_t fd)
{
    struct transfers *all = arg;

    if ((size_t)fd < all->mask_room)
        all->masks[fd] = 0; /* closing takes it out of the epoll */
    return close(fd);
}

static int on_timer(CURLM *multi, long wait_ms, void *arg)
{
    struct transfers *all = arg;

    (void)multi;
    all->timer_at = wait_ms < 0 ? -1 : clock_ms() + wait_ms;
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

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

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    static const char name[] = "retry-after:";
    struct transfer *transfer = arg;
    size_t length = size * count, head = sizeof(name) - 1;

    transfer->header_bytes += length;
    if (transfer->header_bytes > TRANSFER_HEADERS_MAX)
        return 0;
    if (length > head && !strncasecmp(data, name, head))
        transfer->retry_after_s =
            schedule_retry_after(data + head, length - head, (int64_t)time(NULL));
    return length;
}

/* ---- handles --------------------------------------------------------------------------------- */

static void free_transfer(struct transfer *transfer)
{
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    free(transfer);
}

/* What is the same in every request. */
static bool set_up(struct transfer *transfer, struct transfers *all)
{
    CURL *easy = transfer->easy;
    CURLcode bad = CURLE_OK;

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_TIMEOUT_MS, (long)all->timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)all->timeout_ms);
    SET(CURLOPT_DNS_CACHE_TIMEOUT, 10L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_USERAGENT, "busbar/" PACKAGE_VERSION);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_ERRORBUFFER, transfer->error);
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, transfer);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, all);
#undef SET
    return !bad;
}

static struct transfer *make(struct transfers *all)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct transfer **list = realloc(all->list, room * sizeof(*list));

        if (!list)
            return NULL;
        all->list = list;
        all->room = room;
    }
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer)
        return NULL;
    transfer->all = all;
    transfer->socket.guard = &all->guard;
    transfer->easy = curl_easy_init();
    if (!transfer->easy || !set_up(transfer, all)) {
        free_transfer(transfer);
        return NULL;
    }
    all->list[all->count++] = transfer;
    return transfer;
}

static void give_back(struct transfer *transfer)
{
    transfer->arg = NULL;
    transfer->next = transfer->all->free_ones;
    transfer->all->free_ones = transfer;
}

/* ---- requests -------------------------------------------------------------------------------- */

BB_PRINTF(3, 4)
static int header(struct transfer *transfer, int *at, const char *format, ...)
{
    struct curl_slist *node = &transfer->headers[*at];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(transfer->lines[*at], HEADER_ROOM, format, args);
    va_end(args);
    node->data = transfer->lines[*at];
    node->next = NULL;
    if (*at)
        node[-1].next = node;
    ++*at;
    return length < 0 || length >= HEADER_ROOM ? -1 : 0;
}

/* libcurl only reads a list of headers, so that its nodes can lie in the transfer. */
static int write_headers(struct transfer *transfer, const struct transfer_request *request)
{
    int64_t timestamp = request->wall_ms / 1000;
    char hex[SIGN_HEX], standard[SIGN_STANDARD];
    int at = 0, bad = 0;

    if (sign_body(request->keys[0], request->body, request->length, hex) ||
        sign_standard(request->keys, request->key_count, request->event_id, timestamp,
                      request->body, request->length, standard))
        return -1;
    bad |= header(transfer, &at, "Content-Type: application/json");
    bad |= header(transfer, &at, "Expect:");
    bad |= header(transfer, &at, "X-Webhook-Event: %s", request->event);
    bad |= header(transfer, &at, "X-Webhook-Signature: %s", hex);
    bad |= header(transfer, &at, "X-Webhook-Attempt: %d", request->attempt);
    bad |= header(transfer, &at, "webhook-id: %s", request->event_id);
    bad |= header(transfer, &at, "webhook-timestamp: %" PRId64, timestamp);
    bad |= header(transfer, &at, "webhook-signature: %s", standard);
    return bad;
}

/* Not over a connection that may be the reason why the attempt before this one failed. */
static bool set_request(struct transfer *transfer, const struct transfer_request *request)
{
    CURL *easy = transfer->easy;

    return !curl_easy_setopt(easy, CURLOPT_URL, request->url) &&
           !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) &&
           !curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->attempt > 1 ? 1L : 0L) &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length) &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
}

int transfers_start(struct transfers *all, const struct transfer_request *request, void *arg)
{
    struct transfer *transfer = all->free_ones;

    if (transfer)
        all->free_ones = transfer->next;
    else if (!(transfer = make(all)))
        return -1;
    transfer->socket.refused = false;
    transfer->error[0] = '\0';
    transfer->body_bytes = transfer->header_bytes = 0;
    transfer->retry_after_s = 0;
    transfer->cut = false;
    transfer->arg = arg;
    if (!write_headers(transfer, request) && set_request(transfer, request) &&
        curl_multi_add_handle(all->multi, transfer->easy) == CURLM_OK)
        return 0;
    give_back(transfer);
    return -1;
}

/* ---- the end of a request ----------------------------------------------------------------------
 */

static const char *reason(const struct transfer *transfer, CURLcode code)
{
    if (transfer->header_bytes > TRANSFER_HEADERS_MAX)
        return "the answer's headers are too large";
    if (code == CURLE_COULDNT_CONNECT && transfer->socket.refused)
        return "the address or port is not allowed";
    return transfer->error[0] ? transfer->error : curl_easy_strerror(code);
}

/* A body that was cut is judged by its status, like a whole one. */
static void land(struct transfer *transfer, CURLcode code)
{
    struct transfer_result result = {.arg = transfer->arg,
                                     .retry_after_s = transfer->retry_after_s};
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && transfer->cut))
        result.status = (int)status;
    if (!result.status)
        result.error = reason(transfer, code);
    result.answer = transfer->answer;
    result.answer_length =
        transfer->body_bytes < TRANSFER_KEPT ? transfer->body_bytes : TRANSFER_KEPT;
    transfer->all->landed(transfer->all->landed_arg, &result);
}

/* True: something landed. */
static bool collect(struct transfers *all)
{
    CURLMsg *message;
    bool any = false;
    int left;

    while ((message = curl_multi_info_read(all->multi, &left))) {
        struct transfer *transfer = NULL;
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
        curl_multi_remove_handle(all->multi, easy);
        land(transfer, code);
        give_back(transfer);
        any = true;
    }
    return any;
}

/* ---- turns -------------------------------------------------------------------------------------
 */

static void watch_wake(struct transfers *all, int wake_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = wake_fd};

    if (wake_fd == all->wake_fd)
        return;
    if (epoll_ctl(all->epoll, EPOLL_CTL_ADD, wake_fd, &event) == 0)
        all->wake_fd = wake_fd;
}

static void on_event(struct transfers *all, const struct epoll_event *event)
{
    int fd = event->data.fd, running, flags = 0;
    uint64_t count;

    if (fd == all->wake_fd) {
        (void)!read(fd, &count, sizeof(count));
        return;
    }
    if (all->masks[fd] & IDLE) {
        watch(all, fd, 0);
        return;
    }
    if (event->events & (EPOLLIN | EPOLLRDHUP))
        flags |= CURL_CSELECT_IN;
    if (event->events & EPOLLOUT)
        flags |= CURL_CSELECT_OUT;
    if (event->events & (EPOLLERR | EPOLLHUP))
        flags |= CURL_CSELECT_ERR;
    curl_multi_socket_action(all->multi, fd, flags, &running);
}

static bool timer_due(const struct transfers *all)
{
    return all->timer_at >= 0 && all->timer_at <= clock_ms();
}

static void run_timer(struct transfers *all)
{
    int running;

    for (int i = 0; i < 8 && timer_due(all); i++) {
        all->timer_at = -1;
        curl_multi_socket_action(all->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

static int wait_for(const struct transfers *all, int64_t wait_ms)
{
    if (all->timer_at >= 0) {
        int64_t timer = all->timer_at - clock_ms();

        if (timer < 0)
            timer = 0;
        if (wait_ms < 0 || timer < wait_ms)
            wait_ms = timer;
    }
    return wait_ms > 60000 ? 60000 : (int)wait_ms;
}

void transfers_turn(struct transfers *all, int wake_fd, int64_t wait_ms)
{
    struct epoll_event events[EVENTS];

    watch_wake(all, wake_fd);
    run_timer(all);
    if (collect(all)) /* the timers may have ended some */
        wait_ms = 0;
    int count = epoll_wait(all->epoll, events, EVENTS, wait_for(all, wait_ms));

    for (int i = 0; i < count; i++)
        on_event(all, &events[i]);
    run_timer(all);
    collect(all);
}

/* ---- all of it
 * ----------------------------------------------------------------------------------- */

void transfers_free(struct transfers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i]->arg)
            curl_multi_remove_handle(all->multi, all->list[i]->easy);
        free_transfer(all->list[i]);
    }
    if (all->multi)
        curl_multi_cleanup(all->multi);
    if (all->epoll >= 0)
        close(all->epoll);
    free(all->list);
    free(all->masks);
    free(all);
}

struct transfers *transfers_new(const struct target_rules *rules, size_t connections,
                                int64_t timeout_ms,
                                void (*landed)(void *, struct transfer_result *), void *landed_arg)
{
    struct transfers *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    all->guard.rules = rules;
    all->timeout_ms = timeout_ms;
    all->landed = landed;
    all->landed_arg = landed_arg;
    all->timer_at = all->wake_fd = -1;
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    all->multi = curl_multi_init();
    if (all->epoll >= 0 && all->multi &&
        !curl_multi_setopt(all->multi, CURLMOPT_SOCKETFUNCTION, on_socket) &&
        !curl_multi_setopt(all->multi, CURLMOPT_SOCKETDATA, all) &&
        !curl_multi_setopt(all->multi, CURLMOPT_TIMERFUNCTION, on_timer) &&
        !curl_multi_setopt(all->multi, CURLMOPT_TIMERDATA, all) &&
        !curl_multi_setopt(all->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) &&
        !curl_multi_setopt(all->multi, CURLMOPT_MAXCONNECTS, (long)connections))
        return all;
    transfers_free(all);
    return NULL;
}
