/* Old messages move to the document store, and come back when somebody reads them. */
#include <sys/stat.h>

#include "files.h"
#include "live.h"

enum {
    MESSAGES = 40,
    LENGTH = 90000, /* bytes: the messages are several parts of a MiB */
    OLD_DAYS = 31,
    RESTORED_DAYS = 8
};

static const char *store;

static void open_archive(const char *name)
{
    store = harness_path(text("documents-%s", name));
    stage_open(&(struct host_spec){.name = name,
                                   .modules = "[auth, chat, device, health, metrics]",
                                   .chat = "  retention_days: 30\n",
                                   .http = "  deadline: 60000\n",
                                   .db = "  statement_timeout: 60000\n",
                                   .more = files_section(store)});
    platform = person_make(host, admin, "archive.platform", NULL);
}

/* Makes a conversation old, and lets the job begin with the oldest conversations. */
static void age(const struct talk *talk)
{
    sql_run(db, text("UPDATE chat_conversation SET last_at = now() - interval '%d days' WHERE id ="
                     " %jd",
                     OLD_DAYS, talk->id));
    sql_run(db, "UPDATE chat_archive_state SET hour = 'epoch', id = 0");
}

/* Makes a conversation with messages of long ago. The commands no longer archive or restore the
 * messages of earlier tests. */
static struct talk old_talk(const char *user, int messages, int length)
{
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);

    sql_run(db, "DELETE FROM chat_archive");
    sql_run(db, "UPDATE chat_conversation SET last_at = now()");
    sql_run(db, text("INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry,"
                     " created_at) SELECT %jd, g, gen_random_uuid(), '%s',"
                     " rpad('entry ' || g || E' \\x01\"\\\\\\n€😀', %d, md5(g::text)),"
                     " now() - interval '%d days' FROM generate_series(2, %d) g",
                     talk.id, user, length, OLD_DAYS, messages));
    sql_run(db, text("UPDATE chat_conversation SET entries = %d, last_entry_uuid = (SELECT uuid"
                     " FROM chat_entry WHERE conversation_id = %jd AND seq = %d) WHERE id = %jd",
                     messages, talk.id, messages, talk.id));
    return talk;
}

/* Returns how many messages of a conversation are in the database. */
static int64_t stored(const struct talk *talk)
{
    return sql_number(
        db, text("SELECT count(*) FROM chat_entry WHERE conversation_id = %jd", talk->id));
}

static void archive(const struct talk *talk)
{
    age(talk);
    host_says(host, 0, "chat", "archive");
    ck_assert_int_eq(stored(talk), sql_number(db, text("SELECT count(*) FROM chat_entry e JOIN"
                                                       " chat_conversation c ON c.id = %jd AND"
                                                       " e.conversation_id = c.id AND e.seq ="
                                                       " c.entries",
                                                       talk->id)));
}

static int64_t parts(const struct talk *talk, const char *condition)
{
    return sql_number(db, text("SELECT count(*) FROM chat_archive WHERE conversation_id = %jd AND"
                               " %s",
                               talk->id, condition));
}

static json_t *chain(const struct talk *talk, const char *query)
{
    return ck_status(talk_chain(host, platform, talk, query), 200)->json;
}

static void expect_same(const json_t *got, const json_t *whole)
{
    ck_assert_uint_eq(json_array_size(got), json_array_size(whole));
    for (size_t i = 0; i < json_array_size(got); i++)
        ck_assert_msg(json_equal(json_array_get(got, i), json_array_get(whole, i)), "message %zu",
                      i + 1);
}

TEST(archived_messages_are_restored_when_they_are_read)
{
    struct talk talk = old_talk("moved@shop.example", MESSAGES, LENGTH);
    json_t *whole = chain(&talk, ""), *page = chain(&talk, "?after=3&limit=4");
    json_t *latest = chain(&talk, "?order=desc&limit=3");
    json_t *full = chain(&talk, "?order=desc&limit=40"); /* a MiB */
    json_t *list = ask_on(host, platform, 200, NULL, "GET /api/chat/conversations")->json;
    const char *unread = text("PATCH /api/chat/conversations/%jd/read"
                              " {'email':'moved@shop.example','before':2}",
                              talk.id);
    int files = files_now(store);

    archive(&talk);
    ck_assert_int_ge(parts(&talk, "true"), 3);
    ck_assert_int_eq(files_now(store) - files, parts(&talk, "true"));
    ck_assert(
        json_equal(ask_on(host, platform, 200, NULL, "GET /api/chat/conversations")->json, list));
    ck_assert_int_eq(parts(&talk, "restored_at IS NOT NULL"), 0);
    ask_on(host, platform, 404, "{'message':'*archived*'}", "%s", unread);
    ck_assert_int_eq(parts(&talk, "restored_at IS NOT NULL"), 0);
    expect_same(chain(&talk, "?order=desc&limit=3"), latest);
    ck_assert_int_eq(parts(&talk, "restored_at IS NOT NULL"), 1);
    expect_same(chain(&talk, "?order=desc&limit=40"), full);
    ck_assert_int_eq(parts(&talk, "restored_at IS NULL"), 1);
    expect_same(chain(&talk, "?after=3&limit=4"), page);
    expect_same(chain(&talk, ""), whole);
    ck_assert_int_eq(parts(&talk, "restored_at IS NULL"), 0);
    ck_assert_int_eq(stored(&talk), MESSAGES);
    ask_on(host, platform, 200, NULL, "%s", unread);
}

/* In JSON the message is six times as long. */
TEST(a_message_of_the_largest_size_is_archived)
{
    struct talk talk = old_talk("large@shop.example", 3, 100);

    sql_run(db, text("UPDATE chat_entry SET chat_entry = repeat(E'\\x01', 4194304) WHERE"
                     " conversation_id = %jd AND seq = 2",
                     talk.id));
    json_t *whole = chain(&talk, "");

    archive(&talk);
    ck_assert_uint_eq(json_array_size(chain(&talk, "?after=9223372036854775807")), 0);
    ck_assert_int_eq(stored(&talk), 1);
    expect_same(chain(&talk, ""), whole);
}

TEST(restored_messages_are_removed_again_after_a_week)
{
    struct talk talk = old_talk("again@shop.example", MESSAGES, LENGTH);
    json_t *whole = chain(&talk, "");

    archive(&talk);
    int files = files_now(store);

    for (int i = 0; i < 2; i++) {
        expect_same(chain(&talk, ""), whole);
        sql_run(db, text("UPDATE chat_archive SET restored_at = now() - interval '%d days'",
                         RESTORED_DAYS));
        archive(&talk);
    }
    ck_assert_int_eq(files_now(store), files);
    expect_same(chain(&talk, ""), whole);
    sql_run(db, "UPDATE chat_archive SET restored_at = NULL"); /* although the messages exist */
    expect_same(chain(&talk, ""), whole);
}

TEST(a_post_continues_an_archived_conversation)
{
    struct talk talk = old_talk("goes.on@shop.example", 5, 100);
    const char *listed = text("GET /api/chat/conversations?id=%jd", talk.id);

    archive(&talk);
    ask(platform, 200, NULL, "POST /api/chat/conversations/%jd/close", talk.id);
    ask(platform, 200, "[{'closed':true}]", "%s", listed);
    ck_status(talk_post(host, platform, &talk, "goes.on@shop.example", "later"), 201);
    ask(platform, 200, "[{'closed':false}]", "%s", listed);
    const json_t *all = chain(&talk, "");

    ck_assert_uint_eq(json_array_size(all), 6);
    for (size_t i = 0; i < 5; i++)
        ck_assert(json_equal(json_object_get(json_array_get(all, i), "nextEntryUuid"),
                             json_object_get(json_array_get(all, i + 1), "uuid")));
    /* the messages 5 and 6 become another part when they have not been read for a week */
    ck_status(talk_post(host, platform, &talk, "goes.on@shop.example", "last"), 201);
    sql_run(db, "UPDATE chat_archive SET restored_at = now() - interval '8 days'");
    archive(&talk);
    ck_assert_int_eq(parts(&talk, "first = 5 AND last = 6"), 1);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 7);
}

/* Removes restored messages, as the job does after a week. */
static void remove_restored(const struct talk *talk)
{
    sql_run(db, text("DELETE FROM chat_entry WHERE conversation_id = %jd AND seq < %d", talk->id,
                     MESSAGES));
    sql_run(db, "UPDATE chat_archive SET restored_at = NULL");
}

TEST(pages_of_all_sizes_are_complete)
{
    struct talk talk = old_talk("pages@shop.example", MESSAGES, LENGTH);
    json_t *whole = chain(&talk, ""), *pages[2 * MESSAGES];
    const char *queries[2 * MESSAGES];
    size_t count = 0;

    for (int limit = 1; limit <= MESSAGES; limit += 19)
        for (int after = 0; after < MESSAGES; after += repetitions(26, 13)) {
            queries[count++] = text("?after=%d&limit=%d", after, limit);
            queries[count++] = text("?order=desc&before=%d&limit=%d", after + 1, limit);
        }
    for (size_t i = 0; i < count; i++)
        pages[i] = chain(&talk, queries[i]);
    archive(&talk);
    for (size_t i = 0; i < count; i++) {
        expect_same(chain(&talk, queries[i]), pages[i]);
        remove_restored(&talk);
    }
    expect_same(chain(&talk, ""), whole);
}

TEST(many_readers_restore_a_conversation_once)
{
    struct talk talk = old_talk("many@shop.example", MESSAGES, LENGTH);
    json_t *whole = chain(&talk, "");
    struct call calls[8];
    struct answer *answers[8];

    archive(&talk);
    for (int i = 0; i < 8; i++)
        calls[i] = call_by(platform, "GET /api/chat/chain/%s", talk.head);
    parallel(host, calls, answers, 8);
    for (int i = 0; i < 8; i++)
        expect_same(ck_status(answers[i], 200)->json, whole);
    ck_assert_int_eq(stored(&talk), MESSAGES);
}

TEST(a_part_that_cannot_be_recorded_stays_in_the_database)
{
    struct talk talk = old_talk("refused@shop.example", 5, 100);
    int files = files_now(store);

    sql_trigger(db, "BEFORE INSERT ON chat_archive FOR EACH ROW", "RAISE EXCEPTION 'no'");
    age(&talk);
    host_says(host, 1, "chat", "archive");
    ck_assert_int_eq(files_now(store), files + 1);
    ck_assert_int_eq(stored(&talk), 5);
    sql_run(db, SQL_TRIGGER_DROP);
    archive(&talk);
    ck_assert_int_eq(files_now(store), files + 1);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 5);
}

TEST(the_command_restores_everything)
{
    struct talk one = old_talk("one@shop.example", 5, 100);
    struct talk two = old_talk("other@shop.example", 6, 100);

    archive(&one);
    archive(&two);
    talk_retention(host, " 0"); /* otherwise the job could archive them again at once */
    host_says(host, 0, "chat", "restore");
    ck_assert_int_eq(stored(&one), 5);
    ck_assert_int_eq(stored(&two), 6);
    /* a later archive depends on no earlier file */
    sql_is(db, 0, "SELECT count(*) FROM chat_archive");
    talk_retention(host, "30");
    archive(&one);
    ck_assert_int_eq(parts(&one, "true"), 1);
}

static const struct damage {
    const char *command; /* a shell command that damages the file $f */
    const char *found;   /* reported by the doctor; NULL: nothing, because the size is right */
} damages[] = {
    {"rm $f", "no file"},
    {"truncate -s -1 $f", "a file of another size"},
    {"truncate -s 0 $f", "a file of another size"},
    {"printf x | dd of=$f bs=1 seek=1000 conv=notrunc status=none", NULL},
};

static void expect_part(const json_t *whole, int64_t first, const json_t *got)
{
    ck_assert_uint_gt(json_array_size(got), 0);
    for (size_t i = 0; i < json_array_size(got); i++)
        ck_assert(json_equal(json_array_get(got, i), json_array_get(whole, (size_t)first - 1 + i)));
}

TEST_EACH(a_damaged_part_in_the_middle_hides_only_its_messages, sizeof damages / sizeof *damages)
{
    const char *size = damages[_i].found;
    struct talk talk = old_talk("middle@shop.example", MESSAGES, LENGTH);
    struct talk beside = old_talk("beside@shop.example", 5, 100);
    json_t *whole = chain(&talk, ""), *small = chain(&beside, "");

    archive(&talk);
    archive(&beside);
    const char *part = text("FROM chat_archive WHERE conversation_id = %jd ORDER BY first OFFSET 2"
                            " LIMIT 1",
                            talk.id);
    const char *name = sql_text(db, text("SELECT name %s", part), 0, NULL);
    intmax_t first = sql_number(db, text("SELECT first %s", part));
    intmax_t last = sql_number(db, text("SELECT last %s", part));
    const char *file = text("f='%s/%.2s/%s'", store, name, name);

    ck_assert_int_eq(system(text("%s; cp $f $f.kept && %s", file, damages[_i].command)), 0);
    /* a response that has begun is cut, because its status cannot become 503 */
    struct answer *cut = talk_chain(host, platform, &talk, "");

    ck_assert_int_eq(cut->status, 0);
    ck_assert_uint_gt(cut->length, 0);
    EACH_TEXT (query, text("?after=%jd", first - 2), text("?after=%jd", last - 1),
               text("?order=desc&before=%jd", last + 1)) {
        struct answer *answer = talk_chain(host, platform, &talk, query);

        ck_error(answer, 503, "Archived messages");
        ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    }
    expect_part(whole, 1, chain(&talk, text("?limit=%jd", first - 2)));
    expect_part(whole, last + 1, chain(&talk, text("?after=%jd", last)));
    expect_part(small, 1, chain(&beside, ""));
    const char *found = text("the store has %s for messages %jd to %jd of conversation %jd\n", size,
                             first, last, talk.id);

    ck_assert_str_eq(host_says(host, 0, "chat", "doctor"), size ? text("error %s", found) : "");
    if (size) /* the status is 1 because fsync is off, too */
        ck_prints(host, 1, text("error    chat         %s", found), "doctor");
    talk_retention(host, " 0");
    const char *said = host_says(host, 1, "chat", "restore");

    ck_assert_msg(strstr(said, text("content %s: ", name)) &&
                      strstr(said, text("messages of conversation %jd from %jd on cannot be"
                                        " restored",
                                        talk.id, first)) &&
                      strstr(said, " parts restored, 1 failed\n"),
                  "%s", said);
    ck_assert_int_eq(parts(&talk, "restored_at IS NULL"), 1);
    ck_assert_int_eq(stored(&talk), MESSAGES - (last - first + 1));
    ck_assert_int_eq(stored(&beside), 5);
    ck_assert_int_eq(system(text("%s; mv $f.kept $f", file)), 0);
    ck_assert_str_eq(host_says(host, 0, "chat", "doctor"), "");
    ck_prints(host, 0, "1 parts restored, 0 failed\n", "chat", "restore");
    expect_same(chain(&talk, ""), whole);
    talk_retention(host, "30");
}

/* A live stream could otherwise miss the messages. */
TEST(messages_that_are_newer_than_an_open_transaction_wait)
{
    PGconn *older = database_connect(the_postgres, "archive");

    sql_run(older, "BEGIN");
    sql_run(older, "SELECT pg_current_xact_id()");
    struct talk talk = talk_start(host, platform, "waits@shop.example", ADMIN_EMAIL, NULL);

    ck_status(talk_post(host, platform, &talk, "waits@shop.example", "second"), 201);
    age(&talk);
    ck_prints(host, 1, "wait for the end of an older transaction of the database: 1\n", "chat",
              "archive");
    ck_assert_int_eq(stored(&talk), 2);
    sql_run(older, "COMMIT");
    PQfinish(older);
    archive(&talk);
    ck_assert_int_eq(stored(&talk), 1);
}

TEST(a_retention_without_a_document_store_is_refused)
{
    struct host_spec spec = {.name = "archive_alone",
                             .database = database_make(the_postgres, "archive_alone"),
                             .modules = "[auth, chat, health]"};
    struct host *alone = host_start(&spec);

    spec.chat = "  retention_days: 30\n";
    file_write(alone->conf, host_configuration(&spec));
    ck_prints(alone, 1, "module chat: retention_days: needs a module with a document store",
              "reload");
    host_stop(alone);
    ck_assert(!host_run(alone));
    ck_assert_uint_ge(host_logged(alone, "module chat: retention_days: needs a module"), 1);
    host_log_clean(alone);
}

/* The names are in the order of their digits, and the lost one is the last. */
TEST(the_doctor_checks_a_part_of_a_large_store_or_all_of_it)
{
    struct talk talk = old_talk("large.store@shop.example", 5, 100);

    archive(&talk);
    sql_run(db, "INSERT INTO chat_archive (conversation_id, first, last, text_bytes, name, bytes)"
                " VALUES (0, 1, 1, 1, repeat('f', 64) || '.chat', 1)");
    for (int i = 0; i < 255 * 200; i++) {
        const char *folder = text("%s/%02x", store, i / 200);

        if (i % 200 == 0)
            mkdir(folder, 0700);
        file_write(text("%s/%02x%062d.chat", folder, i / 200, i % 200), "");
    }
    const char *part = host_says(host, 0, "chat", "doctor");

    ck_assert_msg(strstr(part, "notice the store has more than 50000 files: ") &&
                      !strstr(part, "no file for messages 1 to 1 of conversation 0"),
                  "%s", part);
    const char *all = host_says(host, 0, "chat", "doctor", "--all=true");

    ck_assert_msg(
        strstr(all, "error the store has no file for messages 1 to 1 of conversation 0") &&
            !strstr(all, "notice"),
        "%s", all);
    sql_run(db, "DELETE FROM chat_archive WHERE conversation_id = 0");
    ck_assert_int_eq(system(text("find %s -size 0 -name '*.chat' -delete", store)), 0);
}

TEST(streams_neither_repeat_restored_messages_nor_skip_archived_ones)
{
    struct talk talk = old_talk("streamed@shop.example", 3, 100);
    struct sse *sse = live_listen(host, platform, NULL);

    ck_status(talk_post(host, platform, &talk, "streamed@shop.example", "seen"), 201);
    live_expect(sse, "seen");
    const char *seen = sse->last_id;

    ck_status(talk_post(host, platform, &talk, "streamed@shop.example", "missed"), 201);
    live_expect(sse, "missed");
    ck_status(talk_post(host, platform, &talk, "streamed@shop.example", "latest"), 201);
    live_expect(sse, "latest");
    const char *latest = sse->last_id;

    archive(&talk);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 6);
    live_silence(sse);
    struct sse *behind = live_listen(host, platform, seen);

    live_reset(behind);
    struct sse *current = live_listen(host, platform, latest);

    live_silence(current);
    ck_status(talk_post(host, platform, &talk, "streamed@shop.example", "new"), 201);
    live_expect(sse, "new");
    live_expect(behind, "new");
    live_expect(current, "new");
}

OPENED_SUITE(archive, open_archive, 120);
