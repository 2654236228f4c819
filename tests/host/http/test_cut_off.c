/*
 * Truncated bodies: a number of bytes is declared as the length of the body or of a chunk, and
 * fewer are sent before the client closes its side. The client always gets the service's own
 * response.
 */
#include <sys/socket.h>

#include "files.h"
#include "stage.h"
#include "wire.h"

#define JSON_TYPE "application/json"

enum { LOGIN_MAX = 32768, SENT_MOST = 4 * MIB, WAYS = 6 };

static struct person *person;
static char *blanks, *parts; /* the bytes to send, at least SENT_MOST */

static void set_up(void)
{
    struct upload_body body = files_named("Cut off");
    char *noise = upload_noise(1, SENT_MOST);

    upload_file(&body, "SF_02C", "x", noise, SENT_MOST);
    parts = kept(body.bytes);
    blanks = text_repeated(" ", SENT_MOST);
    stage_open(&(struct host_spec){.name = "cut_off",
                                   .modules = "[auth, chat, device, health]",
                                   .more = files_section(harness_path("documents-cut"))});
    person = person_make(host, admin, "cut.off", NULL);
}

static const struct {
    const char *path, *type;
    bool token;
    int status;   /* 0: 413 above the limit, otherwise 400 */
    size_t limit; /* of a body */
} routes[] = {
    {"/api/nope", JSON_TYPE, true, 404, 0},
    {DEVICE, JSON_TYPE, false, 401, 0},
    {DEVICE, UPLOAD_TYPE, false, 401, 0},
    {"/api/auth/login", JSON_TYPE, false, 0, LOGIN_MAX},
    {DEVICE, JSON_TYPE, true, 0, 2 * MIB},
    {"/api/chat/conversations/start", JSON_TYPE, true, 0, 8 * MIB},
    {DEVICE, UPLOAD_TYPE, true, 0, SIZE_MAX},
};

/* Sizes around the pieces in which a body is passed on, and around the largest size that earlier
 * versions answered. */
static const size_t sizes[] = {1,      65535,  65536, 65537,   262143,
                               262144, 262145, MIB,   MIB + 1, 20 * MIB};

/* Returns how many of the declared bytes are sent. */
static size_t sent_of(size_t declared, int way)
{
    const size_t sent[WAYS] = {0, 1, 65536, 262144, declared / 2, declared - 1};
    size_t most = declared - 1 < SENT_MOST ? declared - 1 : SENT_MOST;

    return sent[way] < most ? sent[way] : most;
}

static int status_of(int at, size_t length)
{
    if (routes[at].status)
        return routes[at].status;
    return length > routes[at].limit ? 413 : 400;
}

struct cut {
    struct wire *wire;
    const char *what;
    int status;
};

static struct cut cut_off(int at, const char *version, const char *framing, size_t sent, int status)
{
    const char *type = routes[at].type;
    struct wire *wire = wire_open(host);

    wire_say(wire, "POST %s HTTP/%s\r\nHost: x\r\nContent-Type: %s\r\n", routes[at].path, version,
             type);
    if (routes[at].token)
        wire_say(wire, "Authorization: Bearer %s\r\n", person->token);
    wire_say(wire, "%s", framing);
    wire_send(wire, strcmp(type, UPLOAD_TYPE) ? blanks : parts, sent);
    shutdown(wire->fd, SHUT_WR);
    const char *what = text("%zu bytes of %s to %s after %s", sent, type, routes[at].path, framing);

    return (struct cut){wire, what, status};
}

static void ck_answered(const struct cut *cut)
{
    struct wire_answer *answer = wire_read(cut->wire, 5000);

    ck_assert_msg(answer != NULL, "no answer to %s", cut->what);
    ck_assert_msg(answer->status == cut->status, "%d to %s", answer->status, cut->what);
    ck_wire_error(answer, cut->status);
    ck_assert_str_eq(wire_header(answer, "Connection"), "close");
    ck_assert(wire_closes(cut->wire, 5000));
    wire_close(cut->wire, false);
}

/* Tests all combinations of one size at once: the end of a body may be noticed only by the timeout
 * sweep. */
TEST_EACH(a_truncated_body_of_any_size_gets_a_response, COUNT(routes))
{
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const char *length = text("Content-Length: %zu\r\n\r\n", sizes[i]);
        const char *chunk = text("Transfer-Encoding: chunked\r\n\r\n%zx\r\n", sizes[i]);
        struct cut cuts[3 * WAYS], *end = cuts;

        for (int way = 0; way < WAYS; way++) {
            size_t sent = sent_of(sizes[i], way);

            *end++ = cut_off(_i, "1.1", length, sent, status_of(_i, sizes[i]));
            *end++ = cut_off(_i, "1.0", length, sent, status_of(_i, sizes[i]));
            *end++ = cut_off(_i, "1.1", chunk, sent, status_of(_i, sent));
        }
        for (const struct cut *cut = cuts; cut < end; cut++)
            ck_answered(cut);
    }
    ck_assert(wire_is_served(host));
}

STAGE_SUITE(cut_off, set_up, 90)
