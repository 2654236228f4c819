/* Chains and lists of any length need a limited amount of memory. */
#include <sys/socket.h>

#include "stage.h"
#include "talk.h"

enum {
    STALLED_MAX = 12,
    CONVERSATIONS = 3000,
    HUGE = 60,
    ALLOWED_KIB = HUGE * 900, /* less than the chain, more than AddressSanitizer adds */
    LARGE = 4,
    SIP = 32 * 1024, /* bytes every SIP_US microseconds */
    SIP_US = 15000
};

static struct person *platform;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "chat_long", .environment = process_lean});
    platform = person_make(host, admin, "long.platform", NULL);
}

/* Makes a conversation of a short first message and this many messages of a MiB each. */
static struct talk huge_talk(const char *user, int entries)
{
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);

    sql_run(db, text("INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry,"
                     " created_at) SELECT %jd, g + 1, gen_random_uuid(), '%s',"
                     " rpad('entry ' || g || ' ', 1048576, md5(g::text)), now()"
                     " FROM generate_series(1, %d) g",
                     talk.id, user, entries));
    sql_run(db,
            text("UPDATE chat_conversation SET entries = %d WHERE id = %jd", entries + 1, talk.id));
    return talk;
}

/* Requests the chain and does not read the response. */
static int stalled_reader(const struct talk *talk)
{
    const char *request =
        text("GET /api/chat/chain/%s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n",
             talk->head, platform->token);
    int fd = raw_open(host);

    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    return fd;
}

static void expect_chain(const json_t *chain, size_t from, size_t count)
{
    ck_assert_uint_eq(json_array_size(chain), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(chain, i);
        const json_t *following = json_array_get(chain, i + 1);
        const char *entry = json_string_value(json_object_get(message, "chatEntry"));
        const char *begin = text("entry %zu ", from + i);

        if (from + i > 0) {
            ck_assert_uint_eq(strlen(entry), 1048576);
            ck_assert(!strncmp(entry, begin, strlen(begin)));
        }
        if (following)
            ck_assert(json_equal(json_object_get(message, "nextEntryUuid"),
                                 json_object_get(following, "uuid")));
    }
}

TEST(a_huge_chain_is_complete_and_needs_little_memory)
{
    int stalled = repetitions(3, STALLED_MAX);

    struct talk talk = huge_talk("huge@shop.example", HUGE);
    int64_t before = process_status(host->pid, "VmRSS:");
    struct answer *whole = ck_status(talk_chain(host, platform, &talk, ""), 200);
    int readers[STALLED_MAX];

    expect_chain(whole->json, 0, HUGE + 1);
    ck_assert(json_is_null(json_object_get(json_array_get(whole->json, HUGE), "nextEntryUuid")));
    ck_assert_ptr_null(next_page(whole));
    for (int i = 0; i < stalled; i++)
        readers[i] = stalled_reader(&talk);
    ck_assert_uint_eq(talk_length(host, platform, &talk), HUGE + 1);
    int64_t grown = process_status(host->pid, "VmHWM:") - before;

    ck_assert_msg(grown < ALLOWED_KIB, "the host grew by %jd KiB", grown);
    for (int i = 0; i < stalled; i++)
        close(readers[i]);
}

TEST(the_pages_of_a_huge_chain_have_as_many_messages_as_the_limit)
{
    struct talk talk = huge_talk("pages@shop.example", 11);
    struct answer *page = ck_status(talk_chain(host, platform, &talk, "?limit=5"), 200);

    expect_chain(page->json, 0, 5);
    for (size_t from = 5; from < 12; from += 5) {
        const char *path = next_page(page);

        ck_assert_ptr_nonnull(path);
        page = ck_status(http(host, "GET", path, platform->token, NULL), 200);
        expect_chain(page->json, from, from == 5 ? 5 : 2);
    }
    ck_assert_ptr_null(next_page(page));
}

/* The reader is so slow that bytes of a page remain when the next page is sent. */
TEST(a_slow_reader_gets_a_complete_huge_chain)
{
    struct talk talk = huge_talk("slow@shop.example", LARGE);
    int fd = stalled_reader(&talk);
    static char bytes[SIP];
    char last[8] = "";
    int64_t total = 0;
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof bytes, MSG_WAITALL)) > 0) {
        total += got;
        if (got >= 5)
            memcpy(last, bytes + got - 5, 5);
        usleep(SIP_US);
    }
    ck_assert_int_gt(total, (int64_t)LARGE * 1048576);
    ck_assert_mem_eq(last, "0\r\n\r\n", 5);
}

/* A chain that cannot be read to its end must not look complete. */
TEST(a_chain_that_fails_while_it_is_sent_does_not_look_complete)
{
    struct talk talk = huge_talk("cut@shop.example", 20);
    int fd = stalled_reader(&talk);
    static char bytes[65536];
    char last[8] = "";
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);

    ck_assert_int_gt(got, 0);
    ck_assert(!strncmp(bytes, "HTTP/1.1 200", 12));
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_entry IN ACCESS EXCLUSIVE MODE");
    for (int64_t total = 0; got > 0; total += got) {
        ck_assert_int_lt(total, 21 * 1048576);
        got = recv(fd, bytes, sizeof bytes, 0);
        if (got >= 5)
            memcpy(last, bytes + got - 5, 5);
    }
    ck_assert(memcmp(last, "0\r\n\r\n", 5) != 0);
    close(fd);
    sql_run(db, "ROLLBACK");
    ck_status(talk_chain(host, platform, &talk, "?limit=1"), 200);
}

TEST(a_list_of_thousands_of_conversations_is_complete_and_in_order)
{
    const char *user = "thousands@shop.example";

    for (int i = 0; i < 3; i++)
        talk_start(host, platform, user, text("other%d@shop.example", i), "listed");
    sql_run(db, text("INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1,"
                     " unread2, head_uuid, last_entry_uuid, participant1, participant2)"
                     " SELECT 500000 + g, %jd, 1, now() - g %% 1000 * interval '1 hour', 0, 0,"
                     " gen_random_uuid(), gen_random_uuid(), '%s', 'x' || g || '@shop.example'"
                     " FROM generate_series(1, %d) g",
                     platform->organization, user, CONVERSATIONS));
    sql_run(db, "INSERT INTO chat_directory (id, organisation, created_at, head_uuid, participant1,"
                " participant2) SELECT id, organisation, last_at, head_uuid, participant1,"
                " participant2 FROM chat_conversation WHERE id > 500000");
    const struct person *callers[] = {platform, admin};

    for (int i = 0; i < 2; i++) {
        const json_t *list =
            ck_status(talk_of(host, callers[i], "conversations/user", user, ""), 200)->json;
        char *all = kept(malloc((CONVERSATIONS + 4) * 24));
        size_t used = (size_t)snprintf(all, 24, "{");

        ck_assert_uint_eq(json_array_size(list), CONVERSATIONS + 3);
        for (size_t row = 0; row < json_array_size(list); row++)
            used += (size_t)snprintf(
                all + used, 24, "%s%jd", row ? "," : "",
                (intmax_t)json_integer_value(json_object_get(json_array_get(list, row), "id")));
        snprintf(all + used, 24, "}");
        const char *expected =
            sql_text(db,
                     "SELECT array_agg(id ORDER BY last_at DESC, id DESC) FROM chat_conversation"
                     " WHERE participant1 = $1",
                     1, &user);

        ck_assert_str_eq(all, expected);
    }
}

STAGE_SUITE(chat_long, set_up, 600)
