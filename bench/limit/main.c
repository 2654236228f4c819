/*
 * Measures the rate of libcurl alone, with which the sender of webhooks is compared.
 *
 *     limit URL COUNT CONNECTIONS PATHS BODY
 *
 * POSTs the bytes of the file BODY to URL/0 … URL/<PATHS - 1>, in turn, COUNT times, with
 * CONNECTIONS requests in flight. It sends the headers of a delivery with constant values, and
 * signs, queues and records nothing. One thread uses curl_multi_socket_action on an epoll; sockets
 * stay in the epoll set between two requests, as in modules/webhook. Prints the rate and the CPU
 * seconds.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 256
#define FILES 4096
#define BODY_MAX 65536

static CURLM *multi;
static int epoll;
static uint32_t masks[FILES]; /* the events for which epoll watches each file */
static long long timer_at = -1;
static const char *base;
static long left, failed, made, paths;
static struct curl_slist *headers;
static char body[BODY_MAX];
static long body_length;

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long long now_ms(void)
{
    return (long long)(seconds(CLOCK_MONOTONIC) * 1000);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct epoll_event event = {.data.fd = fd};

    (void)easy, (void)arg, (void)socket_arg;
    if (what == CURL_POLL_REMOVE)
        return 0;
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
    if (fd >= FILES)
        return -1;
    if (masks[fd] != event.events)
        epoll_ctl(epoll, masks[fd] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    masks[fd] = event.events;
    return 0;
}

static int on_close(void *arg, curl_socket_t fd)
{
    (void)arg;
    masks[fd] = 0;
    return close(fd);
}

static int on_timer(CURLM *of, long wait_ms, void *arg)
{
    (void)of, (void)arg;
    timer_at = wait_ms < 0 ? -1 : now_ms() + wait_ms;
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes, (void)arg;
    return size * count;
}

static CURL *new_easy(void)
{
    CURL *easy = curl_easy_init();

    if (!easy)
        abort();
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 10000L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, body_length);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "busbar/1.0.0");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    return easy;
}

static void start(CURL *easy)
{
    char url[256];

    if (left-- <= 0)
        return;
    snprintf(url, sizeof(url), "%s/%ld", base, made++ % paths);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_multi_add_handle(multi, easy);
}

/* Returns the number of finished transfers. */
static long collect(void)
{
    CURLMsg *message;
    long ended = 0, status = 0;
    int more;

    while ((message = curl_multi_info_read(multi, &more))) {
        CURL *easy = message->easy_handle;

        status = 0;
        if (message->data.result == CURLE_OK)
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        failed += status != 200;
        curl_multi_remove_handle(multi, easy);
        start(easy);
        ended++;
    }
    return ended;
}

static void turn(void)
{
    struct epoll_event events[EVENTS];
    long long wait = timer_at < 0 ? 1000 : timer_at - now_ms();
    int running, count = epoll_wait(epoll, events, EVENTS, wait < 0 ? 0 : (int)wait);

    for (int i = 0; i < count; i++) {
        int what = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

        curl_multi_socket_action(multi, events[i].data.fd, what, &running);
    }
    if (timer_at >= 0 && timer_at <= now_ms()) {
        timer_at = -1;
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

static void set_up(int connections)
{
    static const char *const lines[] = {
        "Content-Type: application/json",
        "Expect:",
        "X-Webhook-Event: message.new",
        "X-Webhook-Signature: 5f2b8c1de0a94b7786c3f1d2e4b5a697887966554433221100ffeeddccbbaa99",
        "X-Webhook-Attempt: 1",
        "webhook-id: 01a1fdfd-a419-7423-8000-346635443209",
        "webhook-timestamp: 1775044800",
        "webhook-signature: v1,k3YqT0v0m3Zq8u1x5b7N2c4V6d8F0h2J4l6P8r0T2w4=",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        headers = curl_slist_append(headers, lines[i]);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)connections);
}

static void read_body(const char *name)
{
    FILE *file = fopen(name, "r");

    if (!file) {
        perror(name);
        exit(1);
    }
    body_length = (long)fread(body, 1, sizeof(body), file);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: limit URL COUNT CONNECTIONS PATHS BODY\n");
        return 2;
    }
    long count = atol(argv[2]);
    int connections = atoi(argv[3]);

    base = argv[1];
    left = count;
    paths = atol(argv[4]);
    read_body(argv[5]);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    set_up(connections);
    double began = seconds(CLOCK_MONOTONIC);

    for (int i = 0; i < connections; i++)
        start(new_easy());
    for (long done = 0; done < count; done += collect())
        turn();
    printf("%.1f %.3f\n", (double)count / (seconds(CLOCK_MONOTONIC) - began),
           seconds(CLOCK_PROCESS_CPUTIME_ID));
    if (failed)
        fprintf(stderr, "limit: %ld of %ld requests failed\n", failed, count);
    return failed ? 1 : 0;
}
