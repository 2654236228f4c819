/* The HTTP client of modules, with a server on the same thread. */
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "modules/common/http_client.h"
#include "suite.h"

enum { CONNECTIONS_MAX = 8, TURN_MS = 5, TIMEOUT_MS = 20000 };

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static struct http_client *client;
static int listener, connections[CONNECTIONS_MAX], accepted, received, ended, heads;
static char url[64];

static void set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    accepted = received = ended = heads = 0;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 8) &&
              !getsockname(listener, (struct sockaddr *)&address, &size));
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    client = http_client_new(&(struct http_client_options){
        .authorities = "", .idle_s = 60, .connections = CONNECTIONS_MAX});
    ck_assert_ptr_nonnull(client);
}

static void tear_down(void)
{
    http_client_free(client);
    while (accepted)
        close(connections[--accepted]);
    close(listener);
}

/* Runs the client once, and counts what arrives at the server; answers it if there is a text. */
static void turn(const char *answer)
{
    char bytes[4096];

    http_client_turn(client, -1, TURN_MS);
    if (accepted < CONNECTIONS_MAX) {
        connections[accepted] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        accepted += connections[accepted] >= 0;
    }
    for (int i = 0; i < accepted; i++) {
        received += recv(connections[i], bytes, sizeof(bytes), 0) > 0;
        if (answer)
            ck_assert_int_gt(send(connections[i], answer, strlen(answer), MSG_NOSIGNAL), 0);
    }
}

static void on_end(struct http_request *request)
{
    ended++;
    http_request_close(request);
    free(request->bytes);
}

static struct http_request get(void)
{
    return (struct http_request){
        .method = "GET", .url = url, .timeout_ms = TIMEOUT_MS, .body_max = 64, .done = on_end};
}

static bool never(struct http_request *request)
{
    (void)request;
    return false;
}

static void on_head(struct http_request *request)
{
    (void)request;
    heads++;
}

static void exchange(struct http_request *request)
{
    int before = received;

    http_client_start(client, request);
    while (received == before)
        turn(NULL);
    turn(ANSWER);
    while (!request->ended)
        turn(NULL);
}

/* The second request uses the handle and the connection of the first one. */
TEST(a_response_body_is_truncated_and_has_a_limit)
{
    struct http_request request = get();

    request.bytes_max = 1;
    request.headed = on_head;
    request.done = NULL;
    exchange(&request);
    ck_assert(request.outcome == HTTP_ANSWERED && request.status == 200 && heads == 1);
    ck_assert_str_eq(request.bytes, "o");
    free(request.bytes);
    CURL *easy = request.easy;

    request = get();
    request.easy = easy;
    request.body_max = 1;
    request.done = NULL;
    ck_assert_int_eq(http_request_prepare(client, &request), 0);
    exchange(&request);
    ck_assert(request.outcome == HTTP_BROKEN && request.too_large && request.head_ended);
    ck_assert_ptr_eq(request.easy, easy);
    ck_assert_int_eq(accepted, 1);
    on_end(&request);
}

TEST(a_request_refused_before_sending_ends)
{
    struct http_request request = get();

    request.may_send = never;
    http_client_start(client, &request);
    while (!ended)
        turn(NULL);
    ck_assert(request.outcome == HTTP_UNREACHABLE && !request.sendings && !received);
}

TEST(an_abandoned_request_is_cancelled)
{
    atomic_bool left = false;
    struct http_request waiting = get(), late = get();

    waiting.left = late.left = &left;
    http_client_start(client, &waiting);
    while (received < 1)
        turn(NULL);
    atomic_store(&left, true);
    while (!ended)
        turn(NULL);
    http_client_start(client, &late);
    ck_assert_int_eq(ended, 2);
    ck_assert(waiting.outcome == HTTP_LATE && late.outcome == HTTP_LATE);
    ck_assert_int_eq(late.sendings, 0);
}

static void expect_failure(const char *target, const char *answer, int64_t timeout_ms,
                           enum http_outcome outcome, bool fault)
{
    struct http_request request = get();
    int before = received;

    request.url = target;
    request.timeout_ms = timeout_ms;
    http_client_start(client, &request);
    while (!request.ended) {
        turn(NULL);
        if (received == before || !answer)
            continue;
        before = received;
        ck_assert_int_gt(send(connections[accepted - 1], answer, strlen(answer), MSG_NOSIGNAL), 0);
        shutdown(connections[accepted - 1], SHUT_WR);
    }
    ck_assert_msg(request.outcome == outcome && request.servers_fault == fault, "%s: %d, %d",
                  request.error, request.outcome, request.servers_fault);
    ck_assert_int_eq(strcmp(request.error, "The response did not arrive in time") == 0,
                     outcome == HTTP_LATE);
    ck_assert_int_eq(request.sendings > 0, target == url);
}

/* Nobody listens on the port of the first URL, and no label of a name has 64 characters. */
TEST(only_failures_that_the_server_causes_are_its_fault)
{
    static const char nobody[] =
        "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example/";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct rlimit limit, none;
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char refusing[64];

    ck_assert(!bind(taken, (struct sockaddr *)&address, size) &&
              !getsockname(taken, (struct sockaddr *)&address, &size));
    snprintf(refusing, sizeof(refusing), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    expect_failure(refusing, NULL, TIMEOUT_MS, HTTP_UNREACHABLE, true);
    expect_failure(url, "HTTP/1.1 200", TIMEOUT_MS, HTTP_BROKEN, true);
    expect_failure(url, NULL, 3000, HTTP_LATE, true);
    expect_failure(nobody, NULL, TIMEOUT_MS, HTTP_UNREACHABLE, false);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    expect_failure(refusing, NULL, TIMEOUT_MS, HTTP_UNREACHABLE, false);
    setrlimit(RLIMIT_NOFILE, &limit);
    close(taken);
}

TEST(freeing_the_client_ends_every_request)
{
    struct http_request requests[] = {get(), get()};

    for (size_t i = 0; i < 2; i++)
        http_client_start(client, &requests[i]);
    while (received < 2)
        turn(NULL);
    http_client_end(client);
    ck_assert_int_eq(ended, 2);
    ck_assert(requests[0].outcome == HTTP_LATE && requests[1].outcome == HTTP_LATE);
}

SUITE(http_client, .before_each = set_up, .after_each = tear_down)
