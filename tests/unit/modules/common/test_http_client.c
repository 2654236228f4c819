/* The HTTP client of modules, with a server on the same thread. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "modules/common/http_client.h"
#include "suite.h"
#include "unit_suites.h"

enum { CONNECTIONS_MAX = 8, TURN_MS = 5, TIMEOUT_MS = 20000 };

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static struct http_client *client;
static int listener, connections[CONNECTIONS_MAX], accepted, received, ended;
static char url[64];

static void serve_none(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    accepted = received = ended = 0;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 8) &&
              !getsockname(listener, (struct sockaddr *)&address, &size));
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
}

static void open_client(size_t connections_per_host)
{
    client = http_client_new(
        &(struct http_client_options){.authorities = "",
                                      .idle_s = 60,
                                      .connections = CONNECTIONS_MAX,
                                      .connections_per_host = connections_per_host});
    ck_assert_ptr_nonnull(client);
}

static void close_all(void)
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

TEST(requests_wait_for_a_connection_to_their_host)
{
    struct http_request requests[] = {get(), get(), get()};

    serve_none();
    open_client(1);
    for (size_t i = 0; i < 3; i++)
        http_client_start(client, &requests[i]);
    for (int i = 1; i <= 3; i++) {
        while (received < i)
            turn(NULL);
        ck_assert_int_eq(ended, i - 1);
        turn(ANSWER);
        while (ended < i)
            turn(NULL);
    }
    ck_assert_int_eq(accepted, 1);
    for (size_t i = 0; i < 3; i++)
        ck_assert(requests[i].outcome == HTTP_ANSWERED && requests[i].received == 2);
    close_all();
}

TEST(a_request_that_nobody_waits_for_is_ended)
{
    atomic_bool left = false;
    struct http_request waiting = get(), late = get();

    serve_none();
    open_client(0);
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
    close_all();
}

TEST(an_end_ends_every_request)
{
    struct http_request requests[] = {get(), get()};

    serve_none();
    open_client(0);
    for (size_t i = 0; i < 2; i++)
        http_client_start(client, &requests[i]);
    while (received < 2)
        turn(NULL);
    http_client_end(client);
    ck_assert_int_eq(ended, 2);
    ck_assert(requests[0].outcome == HTTP_LATE && requests[1].outcome == HTTP_LATE);
    close_all();
}

SUITE(http_client)
