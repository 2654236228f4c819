/*
 * Opens streams, posts messages, and measures the time from post to arrival.
 *
 *     stream PORT LISTENERS WRITERS STREAMS CONVERSATIONS COPIES RATE SECONDS
 *
 * LISTENERS and WRITERS are files of tokens, one per line; the streams use the tokens of LISTENERS
 * in turn. Messages are posted in an open loop: message n is due n / RATE seconds after the first
 * one, even if earlier messages are late. It is written to conversation 200001 + k, with k = n %
 * CONVERSATIONS, by the account u<2k + 1>, and carries the time at which it was due. Each must
 * arrive on COPIES streams. Prints "rate p50 p99 max count" of the arrivals, in microseconds. One
 * thread, one epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { POSTERS = 32, ROOM = 4096, EVENTS = 512, GRACE_US = 10000000, FIRST = 200001 };

struct client {
    int fd;
    bool posts, busy, begun;
    char bytes[ROOM]; /* an incomplete line or response */
    size_t length;
};

static int epoll, port;
static long streams, conversations, copies, rate, total, posted, answered, arrived, opened;
static char **listeners, **writers;
static long listener_count, writer_count;
static struct client *clients;
static double *times;
static long long begin;

static void fail(const char *what)
{
    fprintf(stderr, "stream: %s: %s; %ld streams, %ld of %ld posted, %ld arrived\n", what,
            strerror(errno), opened, posted, total, arrived);
    exit(1);
}

static long long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static char **read_lines(const char *path, long *count)
{
    FILE *file = fopen(path, "r");
    char **lines = NULL, *line = NULL;
    size_t room = 0;
    ssize_t length;

    if (!file)
        fail(path);
    for (*count = 0; (length = getline(&line, &room, file)) > 0; ++*count) {
        line[strcspn(line, "\n")] = '\0';
        lines = realloc(lines, (size_t)(*count + 1) * sizeof *lines);
        if (!lines || !(lines[*count] = strdup(line)))
            fail("memory");
    }
    fclose(file);
    free(line);
    return lines;
}

static void client_open(struct client *client)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    int one = 1;

    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&to, sizeof to) ||
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event))
        fail("connect");
}

static void say(const struct client *client, const char *bytes, int length)
{
    if (send(client->fd, bytes, (size_t)length, MSG_NOSIGNAL) != length)
        fail("send");
}

static void open_stream(struct client *client, const char *token)
{
    char text[2048];

    client_open(client);
    say(client, text,
        snprintf(text, sizeof text,
                 "GET /api/chat/stream HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %s\r\n\r\n",
                 token));
}

static void post(struct client *client, long number, long long due)
{
    long pair = number % conversations;
    char body[256], text[2048];
    int length =
        snprintf(body, sizeof body,
                 "{\"username\":\"u%ld@bench.test\",\"chatEntry\":\"dueAt %lld: the inverter "
                 "reports 4,812 kWh\"}",
                 2 * pair + 1, due);

    client->busy = true;
    say(client, text,
        snprintf(text, sizeof text,
                 "POST /api/chat/conversations/%ld/messages HTTP/1.1\r\nHost: b\r\nAuthorization: "
                 "Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                 FIRST + pair, writers[2 * pair % writer_count], length, body));
    posted++;
}

/* ---- received data ---- */

static void drop(struct client *client, size_t count)
{
    memmove(client->bytes, client->bytes + count, client->length - count);
    client->length -= count;
    client->bytes[client->length] = '\0';
}

static void take_answer(struct client *client)
{
    const char *end = strstr(client->bytes, "\r\n\r\n");
    const char *length = strcasestr(client->bytes, "\r\nContent-Length: ");

    if (!end || !length || length > end)
        return;
    size_t size = (size_t)(end - client->bytes) + 4 + strtoul(length + 18, NULL, 10);
    if (client->length < size)
        return;
    if (strncmp(client->bytes, "HTTP/1.1 201", 12) != 0)
        fail(client->bytes);
    drop(client, size);
    client->busy = false;
    answered++;
}

static void take_events(struct client *client)
{
    char *at;

    if (!client->begun && client->length > 12) {
        if (strncmp(client->bytes, "HTTP/1.1 200", 12) != 0)
            fail(client->bytes);
        client->begun = true;
        opened++;
    }
    while ((at = strstr(client->bytes, "dueAt ")) && strchr(at, ':')) {
        if (arrived == total * copies)
            fail("more arrived than was due");
        times[arrived++] = (double)(now_us() - strtoll(at + 6, NULL, 10));
        drop(client, (size_t)(strchr(at, ':') - client->bytes));
    }
    if (!at && client->length > 64)
        drop(client, client->length - 64);
}

static void receive(struct client *client)
{
    ssize_t got = recv(client->fd, client->bytes + client->length, ROOM - 1 - client->length, 0);

    if (got <= 0)
        fail(client->posts ? "the host closed on a writer" : "the host closed a stream");
    client->length += (size_t)got;
    client->bytes[client->length] = '\0';
    if (client->posts)
        take_answer(client);
    else
        take_events(client);
}

/* ---- the run ---- */

static void turn(int wait_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(epoll, events, EVENTS, wait_ms);

    for (int i = 0; i < count; i++)
        receive(events[i].data.ptr);
}

static void post_due(void)
{
    for (int i = 0; i < POSTERS && posted < total; i++) {
        struct client *client = &clients[streams + i];
        long long due = begin + posted * 1000000LL / rate;

        if (due > now_us())
            return;
        if (!client->busy)
            post(client, posted, due);
    }
}

static void open_all(void)
{
    long long until = now_us() + 60000000;

    for (long i = 0; i < streams; i++) {
        open_stream(&clients[i], listeners[i % listener_count]);
        if (i % 64 == 0)
            turn(0);
    }
    while (opened < streams && now_us() < until)
        turn(100);
    if (opened < streams)
        fail("not all streams opened");
    for (int i = 0; i < POSTERS; i++) {
        clients[streams + i].posts = true;
        client_open(&clients[streams + i]);
    }
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;

    return one < other ? -1 : one > other;
}

static void print(double seconds)
{
    qsort(times, (size_t)arrived, sizeof *times, by_size);
    printf("%.1f %.0f %.0f %.0f %ld\n", (double)arrived / seconds, times[arrived / 2],
           times[arrived * 99 / 100], times[arrived - 1], arrived);
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: stream PORT LISTENERS WRITERS STREAMS CONVERSATIONS COPIES RATE "
                        "SECONDS\n");
        return 2;
    }
    port = atoi(argv[1]);
    listeners = read_lines(argv[2], &listener_count);
    writers = read_lines(argv[3], &writer_count);
    streams = atol(argv[4]);
    conversations = atol(argv[5]);
    copies = atol(argv[6]);
    rate = atol(argv[7]);
    total = rate * atol(argv[8]);
    epoll = epoll_create1(0);
    clients = calloc((size_t)(streams + POSTERS), sizeof *clients);
    times = calloc((size_t)(total * copies), sizeof *times);
    if (!clients || !times || total < 1)
        fail("memory");
    open_all();
    begin = now_us() + 200000;
    while (arrived < total * copies || answered < total) {
        post_due();
        turn(1);
        if (now_us() > begin + total * 1000000LL / rate + GRACE_US)
            fail("events are missing");
    }
    print((double)(now_us() - begin) / 1e6);
    return 0;
}
