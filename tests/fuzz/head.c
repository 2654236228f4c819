/*
 * The bytes of a client as the reader handles them: the result does not depend on how they are cut
 * into pieces, and malformed bytes end the connection with a status.
 */
#include "core/server/reader.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

/* The most bytes that a client sends, and that libmicrohttpd receives: the host adds zeros for the
 * missing part of a body. */
enum { SENT_MAX = 16 * 1024, GIVEN_MAX = 16 * SENT_MAX + 64 * 1024 };

struct client {
    struct reader reader;
    int ends[2]; /* the reader's end, the client's end */
    size_t room; /* bytes that libmicrohttpd reads at a time */
    bool over;   /* nothing after this request is read */
    char *given; /* GIVEN_MAX bytes */
    size_t length;
    uint64_t judged; /* a hash of the heads so far */
};

/* The request is complete: takes its head and starts the next request. */
static void end_request(struct client *client)
{
    struct arena *arena = arena_new();
    struct head head = {0};

    must(arena && !reader_take(&client->reader, arena, &head));
    must((head.status == 0) == (head.reason == NULL));
    int problem = client->reader.status;

    hash_add(&client->judged, &head.status, sizeof head.status);
    hash_add(&client->judged, &problem, sizeof problem);
    hash_add(&client->judged, &head.length, sizeof head.length);
    for (size_t i = 0; i < head.count; i++) {
        hash_add(&client->judged, head.text + head.fields[i].name, head.fields[i].name_length);
        hash_add(&client->judged, head.text + head.fields[i].value, head.fields[i].value_length);
    }
    if (head.split)
        hash_add(&client->judged, head.text + head.target, strlen(head.text + head.target));
    client->over = head.status || problem;
    if (!client->over)
        reader_next(&client->reader);
    arena_free(arena);
}

/* Reads like libmicrohttpd, request by request, until nothing is left. */
static void read_all(struct client *client)
{
    ssize_t got = 1;

    while (got > 0 && !client->over) {
        must(client->length + client->room <= GIVEN_MAX);
        got = reader_recv(&client->reader, client->ends[0], client->given + client->length,
                          client->room);
        must(got >= 0 || errno == EAGAIN);
        client->length += got > 0 ? (size_t)got : 0;
        if (got <= 0 && client->reader.state == READER_DONE) {
            end_request(client);
            got = 1;
        }
    }
}

/* Removes "Expect: 100-continue", because whether the client is asked to continue depends on the
 * timing of its bytes. */
static void forget_leave(struct client *client)
{
    static const char line[] = "Expect:100-continue\r\n";
    char *at;

    while ((at = memmem(client->given, client->length, line, sizeof line - 1))) {
        client->length -= sizeof line - 1;
        memmove(at, at + sizeof line - 1, client->length - (size_t)(at - client->given));
    }
}

static struct client *converse(const uint8_t *bytes, size_t size, size_t piece, size_t room)
{
    struct client *client = calloc(1, sizeof *client);

    must(client && (client->given = malloc(GIVEN_MAX)) &&
         !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, client->ends));
    client->room = room;
    client->judged = HASH;
    for (size_t at = 0; at < size && !client->over; at += piece) {
        size_t length = size - at < piece ? size - at : piece;

        must(send(client->ends[1], bytes + at, length, 0) == (ssize_t)length);
        read_all(client);
    }
    shutdown(client->ends[1], SHUT_WR);
    read_all(client);
    forget_leave(client);
    return client;
}

static void forget(struct client *client)
{
    reader_free(&client->reader);
    close(client->ends[0]);
    close(client->ends[1]);
    free(client->given);
    free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > SENT_MAX)
        return 0;
    struct client *whole = converse(data + 2, size - 2, SENT_MAX, 4096);
    struct client *cut = converse(data + 2, size - 2, data[0] % 61 + 1U, data[1] % 199 + 1U);

    must(whole->length == cut->length && !memcmp(whole->given, cut->given, whole->length));
    must(whole->judged == cut->judged && whole->over == cut->over);
    forget(whole);
    forget(cut);
    return 0;
}
