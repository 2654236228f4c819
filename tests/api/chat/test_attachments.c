/* Attachments of messages: the rights, the limits, the archive, and a host that is killed. */
#include "devices.h"
#include "exposition.h"
#include "files.h"
#include "live.h"
#include "meter.h"
#include "receive.h"
#include "wire.h"

static const char *store;
static struct person *user, *stranger;
static struct talk talk;

static struct host_spec spec_of(const char *name)
{
    return (struct host_spec){
        .name = name,
        .modules = "[auth, chat, device, health, metrics, webhook]",
        .chat = "  retention_days: 30\n",
        .more = text(WEBHOOK_LOCAL
                     "%s  documents_per_organization: 30000000\n"
                     "  document_types: [\"text/*\", \"image/png\", application/octet-stream]\n",
                     files_section(store))};
}

static void open_attachments(const char *name)
{
    store = harness_path(text("documents-%s", name));
    struct host_spec spec = spec_of(name);

    stage_open(&spec);
    webhook_ready(name, 1);
    platform = person_make(host, admin, "attach.platform", NULL);
    user = person_with_role(host, admin, "attach-user", "User");
    stranger = person_make(host, admin, "attach.stranger", NULL);
    talk = talk_start(host, platform, "attach@shop.example", user->email, NULL);
}

static const char *path_of(const struct talk *at)
{
    return text("/api/chat/conversations/%jd/attachments", at->id);
}

static struct upload_body body_of(const char *username, const char *entry)
{
    struct upload_body body = {NULL, 0};

    upload_field(&body, "message",
                 entry ? text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", username, entry)
                       : text("{\"username\":\"%s\"}", username));
    return body;
}

static struct answer *attach(const struct person *who, const char *username, const char *entry,
                             const char *name)
{
    struct upload_body body = body_of(username, entry);

    upload_file(&body, "files", name, text("content of %s", name), strlen(name) + 11);
    return upload_send(host, "POST", path_of(&talk), who, &body);
}

static struct answer *fetch(const struct person *who, const struct talk *at, const char *id)
{
    return http(host, "GET", text("%s/%s", path_of(at), id), who->token, NULL);
}

static const char *id_of(const json_t *message)
{
    return text_in(json_array_get(json_object_get(message, "attachments"), 0), "id");
}

static void leaves_nothing(void)
{
    ck_assert(store_settles(store));
    WAIT_UNTIL(files_now(store) ==
                   sql_number(db, "SELECT count(DISTINCT object) FROM device_document"),
               20000);
    sql_is(db, 0, "SELECT count(*) FROM device_upload");
}

/* The request must be refused, and leave neither a message nor a file. */
static void refuses(struct answer *answer, long status)
{
    ck_error(answer, status, "");
    leaves_nothing();
}

TEST(a_message_has_its_files_in_the_chain_and_in_the_stream)
{
    struct sse *sse = live_listen(host, user, NULL);
    struct upload_body body = body_of("attach@shop.example", "Two files");
    char *noise = upload_noise(7, 300000);

    upload_file(&body, "files", "../../etc/p\xc3\xa4ss\xe2\x80\xaewd.txt", "plain text", 10);
    upload_file(&body, "files", "noise.bin", noise, 300000);
    struct answer *made =
        ck_status(upload_send(host, "POST", path_of(&talk), platform, &body), 201);
    const json_t *files = json_object_get(made->json, "attachments");

    ck_assert_str_eq(keys_of(made->json),
                     "uuid username chatEntry nextEntryUuid createdAt attachments");
    ck_assert_uint_eq(json_array_size(files), 2);
    ck_assert_str_eq(keys_of(json_array_get(files, 0)), "id name size contentType");
    ck_assert_str_eq(text_in(json_array_get(files, 0), "contentType"), "text/plain");
    ck_assert(json_equal(
        json_array_get(ck_status(talk_chain(host, user, &talk, "?after=1"), 200)->json, 0),
        made->json));
    ck_assert_str_eq(
        keys_of(json_array_get(ck_status(talk_chain(host, user, &talk, "?limit=1"), 200)->json, 0)),
        "uuid username chatEntry nextEntryUuid createdAt");
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert(
        event &&
        json_equal(json_object_get(json_object_get(event->json, "message"), "attachments"), files));
    struct answer *got =
        ck_status(fetch(user, &talk, text_in(json_array_get(files, 1), "id")), 200);

    ck_assert_uint_eq(got->length, 300000);
    ck_assert_mem_eq(got->body, noise, 300000);
    got = ck_status(fetch(platform, &talk, text_in(json_array_get(files, 0), "id")), 200);
    ck_assert_str_eq(answer_header(got, "Content-Disposition"),
                     "attachment; filename=\"p__sswd.txt\"; filename*=UTF-8''p%C3%A4sswd.txt");
    ck_assert_str_eq(answer_header(got, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(answer_header(got, "Content-Security-Policy"), "default-src 'none'; sandbox");
}

TEST(a_message_without_files_is_as_before)
{
    struct catcher *catcher = catcher_start(NULL);

    webhook_make(host, platform, catcher_url(catcher, "hook"), "message.new");
    struct sse *sse = live_listen(host, user, NULL);
    struct answer *made = ck_status(talk_post(host, user, &talk, user->email, "plain"), 201);
    const char *body = text("\"uuid\":\"%s\",\"username\":\"%s\",\"chatEntry\":\"plain\",",
                            answer_text(made, "uuid"), user->email);
    const char *time = text("\"createdAt\":\"%s\"}", answer_text(made, "createdAt"));
    const char *sent = text("{\"conversationId\":%jd,\"message\":{%s%s,\"deviceProjectName\":null}",
                            talk.id, body, time);

    ck_assert_str_eq(made->body, text("{%s\"nextEntryUuid\":null,%s", body, time));
    ck_assert_ptr_nonnull(strstr(ck_status(talk_chain(host, user, &talk, ""), 200)->body,
                                 text("{%s\"nextEntryUuid\":null,%s]", body, time)));
    ck_assert_str_eq(sse_next(sse, SOON_MS)->data, sent);
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 1, SOON_MS)->body, sent));
    made = ck_status(attach(user, user->email, "with a file", "hook.txt"), 201);
    ck_assert_msg(strstr(catcher_wait(catcher, 2, SOON_MS)->body,
                         json_dumps(json_object_get(made->json, "attachments"), JSON_COMPACT)),
                  "%s", catcher_wait(catcher, 2, SOON_MS)->body);
}

TEST(names_are_kept_and_no_file_is_shown_as_a_page)
{
    const char *names[] = {text_repeated("n", 300), "a\\\"b;c.html", "same", "same",
                           "\xe2\x80\xaegpj.exe"};
    struct upload_body body = body_of(user->email, "names");

    for (size_t i = 0; i < 5; i++)
        upload_file(&body, "files", names[i], "<!DOCTYPE html><script>alert(1)</script>", 40);
    struct answer *made = ck_status(upload_send(host, "POST", path_of(&talk), user, &body), 201);
    const json_t *files = json_object_get(made->json, "attachments"), *file;
    size_t i;

    ck_assert_uint_eq(json_array_size(files), 5);
    ck_assert_str_eq(text_in(json_array_get(files, 0), "name"), text_repeated("n", 255));
    json_array_foreach (files, i, file) {
        struct answer *got = ck_status(fetch(user, &talk, text_in(file, "id")), 200);

        ck_assert(!strncmp(answer_header(got, "Content-Disposition"), "attachment; ", 12));
        ck_assert_ptr_null(strstr(answer_header(got, "Content-Disposition"), "%E2%80%AE"));
        ck_assert_str_eq(answer_header(got, "Content-Security-Policy"),
                         "default-src 'none'; sandbox");
    }
}

TEST(a_repeated_request_stores_one_message)
{
    static const char *const headers[] = {"Idempotency-Key: attach-once", NULL};
    struct upload_body body = body_of(user->email, "once");
    size_t before = talk_length(host, user, &talk);

    upload_file(&body, "files", "once.txt", "once", 4);
    struct call call = upload_call(path_of(&talk), user, &body);

    call.headers = headers;
    struct answer *one = ck_status(http_send(host, &call), 201);
    struct answer *two = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(one->body, two->body);
    ck_assert_uint_eq(talk_length(host, user, &talk), before + 1);
    sql_is(db, 1, "SELECT count(*) FROM device_document WHERE name = 'once.txt'");
    memcpy((char *)memmem(body.bytes, body.length, "\r\n\r\nonce", 8) + 4, "more", 4);
    refuses(http_send(host, &call), 422);
}

TEST(pages_of_a_chain_count_the_bytes_of_attachments)
{
    struct talk long_talk = talk_start(host, platform, "long@shop.example", user->email, NULL);

    sql_run(db, text("INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry,"
                     " created_at, attachments) SELECT %jd, g, gen_random_uuid(),"
                     " 'long@shop.example', '', now(), (SELECT json_agg(json_build_object('id',"
                     " gen_random_uuid(), 'name', repeat('\\x01', 255), 'size', 1, 'contentType',"
                     " 'text/plain')) FROM generate_series(1, 10)) FROM generate_series(2, 150) g",
                     long_talk.id));
    sql_run(db, text("UPDATE chat_conversation SET entries = 150 WHERE id = %jd", long_talk.id));
    struct answer *page =
        ck_status(talk_chain(host, user, &long_talk, "?order=desc&limit=1000"), 200);

    ck_assert_uint_lt(page->length, 2 * 1024 * 1024);
    ck_assert_ptr_nonnull(next_page(page));
    ck_assert_uint_eq(talk_length(host, user, &long_talk), 150);
}

TEST(the_rights_are_those_of_posting_and_reading)
{
    struct answer *made = ck_status(attach(user, user->email, NULL, "only a file"), 201);
    const char *id = id_of(made->json);
    struct talk elsewhere = talk_start(host, stranger, "else@shop.example", "b@shop.example", NULL);

    ck_assert_str_eq(answer_text(made, "chatEntry"), "");
    ck_status(attach(admin, admin->email, "from an Admin", "admin"), 201);
    refuses(attach(stranger, stranger->email, "x", "stranger"), 404);
    refuses(attach(user, "attach@shop.example", "x", "somebody else"), 403);
    refuses(attach(platform, "nobody@shop.example", "x", "nobody"), 403);
    ck_status(fetch(admin, &talk, id), 200);
    ck_error(fetch(stranger, &talk, id), 404, "Conversation not found");
    ck_error(fetch(stranger, &elsewhere, id), 404, "Attachment not found");
    ck_error(fetch(user, &talk, "0195f3a0-1111-7222-8333-444455556666"), 404, "Attachment");
}

TEST(files_of_hidden_conversations_are_hidden)
{
    struct talk hidden = talk_start(host, platform, "attach.late@example.com", user->email, NULL);
    struct talk now = talk;

    talk = hidden;
    const char *id = id_of(ck_status(attach(user, user->email, "hidden", "hidden"), 201)->json);
    struct person *late = person_make(host, admin, "attach.late", NULL);

    ck_error(fetch(late, &hidden, id), 404, "Conversation not found");
    refuses(attach(late, late->email, "x", "late"), 404);
    ask(admin, 200, NULL, "POST /api/chat/conversations/%jd/share", hidden.id);
    ck_status(fetch(late, &hidden, id), 200);
    talk = now;
}

TEST(files_stay_without_their_author_and_organization)
{
    struct person *gone = person_make(host, admin, "attach.gone", NULL);
    struct talk old = talk_start(host, gone, "attach@shop.example", user->email, NULL), now = talk;

    talk = old;
    const char *id = id_of(ck_status(attach(gone, "attach@shop.example", "x", "gone"), 201)->json);

    talk = now;
    sql_run(db, text("DELETE FROM auth_session WHERE account = (SELECT id FROM auth_account WHERE"
                     " email = '%s')",
                     gone->email));
    sql_run(db, text("DELETE FROM auth_account WHERE email = '%s'", gone->email));
    sql_run(db, text("DELETE FROM auth_organisation WHERE id = (SELECT organisation FROM"
                     " chat_conversation WHERE id = %jd)",
                     old.id));
    ck_status(fetch(user, &old, id), 200);
    ck_status(fetch(admin, &old, id), 200);
    host_says(host, 0, "device", "doctor");
}

TEST(lists_show_the_files_of_the_last_message)
{
    struct talk listed = talk_start(host, platform, "listed@shop.example", user->email, NULL);
    struct talk now = talk;
    const char *path = text("/api/chat/conversations?id=%jd", (intmax_t)listed.id);

    talk = listed;
    struct answer *made = ck_status(attach(user, user->email, NULL, "listed.txt"), 201);

    talk = now;
    const json_t *last = json_object_get(
        json_array_get(ck_status(http(host, "GET", path, user->token, NULL), 200)->json, 0),
        "lastMessage");

    ck_assert_str_eq(text_in(last, "chatEntry"), "");
    ck_assert(json_equal(json_object_get(last, "attachments"),
                         json_object_get(made->json, "attachments")));
    ck_status(talk_post(host, user, &listed, user->email, "without a file"), 201);
    last = json_object_get(
        json_array_get(ck_status(http(host, "GET", path, user->token, NULL), 200)->json, 0),
        "lastMessage");
    ck_assert_str_eq(keys_of(last), "username chatEntry createdAt");
}

TEST(a_text_of_white_space_is_refused_as_in_other_messages)
{
    refuses(attach(user, user->email, "  \\t\\n", "blank"), 400);
    ck_error(talk_post(host, user, &talk, user->email, "  \t\n"), 400, "");
    ck_assert_str_eq(
        answer_text(ck_status(attach(user, user->email, "", "empty"), 201), "chatEntry"), "");
}

TEST(a_conversation_without_organization_has_a_quota)
{
    struct answer *made =
        ck_status(talk_try(host, admin, ADMIN_EMAIL, "attach.nobody@example.com", NULL, "x"), 201);
    int64_t id =
        json_integer_value(json_object_get(json_object_get(made->json, "conversation"), "id"));
    struct talk now = talk;

    sql_run(db, text("UPDATE chat_conversation SET organisation = NULL WHERE id = %jd", id));
    talk.id = id;
    ck_status(attach(admin, ADMIN_EMAIL, "x", "nobody's"), 201);
    sql_is(db, 19, "SELECT bytes FROM device_usage WHERE organisation = -1");
    talk = now;
}

TEST(the_limits_are_those_of_documents)
{
    struct upload_body body = body_of(user->email, "eleven");

    for (int i = 0; i < 11; i++)
        upload_file(&body, "files", "x", text("eleven %d", i), 9);
    refuses(upload_send(host, "POST", path_of(&talk), user, &body), 400);
    body = body_of(user->email, "none");
    refuses(upload_send(host, "POST", path_of(&talk), user, &body), 400);
    refuses(ask(user, 400, NULL, "POST %s {'username':'%s'}", path_of(&talk), user->email), 400);
    body = body_of(user->email, "html");
    upload_file(&body, "files", "x.pdf", "%PDF-1.7\n", 9);
    refuses(upload_send(host, "POST", path_of(&talk), user, &body), 415);
    body = body_of(user->email, "large");
    upload_file(&body, "files", "x", upload_noise(1, 10485761), 10485761);
    refuses(upload_send(host, "POST", path_of(&talk), user, &body), 413);
    body = body_of(user->email, "empty");
    upload_file(&body, "files", "x", "", 0);
    refuses(upload_send(host, "POST", path_of(&talk), user, &body), 415); /* type inode/x-empty */
    body = body_of(user->email, "as large as possible");
    upload_file(&body, "files", "x", upload_noise(1, 10485760), 10485760);
    ck_status(upload_send(host, "POST", path_of(&talk), user, &body), 201);
    ck_status(attach(user, user->email, text_repeated("\\\"", MIB), "the longest text"), 201);
    body = body_of(user->email, "quota");
    for (unsigned i = 0; i < 3; i++)
        upload_file(&body, "files", "x", upload_noise(i, 10485760), 10485760);
    ck_error(upload_send(host, "POST", path_of(&talk), user, &body), 409,
             "The organization may have 30000000 bytes of attachments at most");
    leaves_nothing();
    sql_is(db, 0, "SELECT count(*) FROM device_usage WHERE organisation > 0"); /* by documents */
}

static double failures(void)
{
    return exposition_value(exposition_get(host, admin->token),
                            "busbar_device_store_failures_total", "call=\"keep\"");
}

TEST(a_store_that_cannot_be_written_is_503_and_is_counted)
{
    char *away = text("%s-away", store);
    double before = failures();

    ck_assert_int_eq(rename(store, away), 0);
    fclose(fopen(store, "w"));
    ck_error(attach(user, user->email, "x", "lost"), 503, "");
    ck_assert(failures() > before);
    unlink(store);
    ck_assert_int_eq(rename(away, store), 0);
    leaves_nothing();
}

/* Sends the head of a request with a body of this length, to the conversation. */
static struct wire *begin(const struct host *on, const struct person *who, size_t length)
{
    struct wire *wire = wire_open(on);

    wire_say(wire,
             "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: " UPLOAD_TYPE
             "\r\nContent-Length: %zu\r\n\r\n",
             path_of(&talk), who->token, length);
    return wire;
}

TEST(a_request_that_is_cut_leaves_nothing)
{
    struct upload_body body = body_of(user->email, "cut");
    size_t messages = talk_length(host, user, &talk);

    upload_file(&body, "files", "cut", upload_noise(3, 3 * MIB), 3 * MIB);
    struct wire *wire = begin(host, user, body.length + 100);

    wire_send(wire, body.bytes, body.length);
    WAIT_UNTIL(store_files(text("%s/incoming", store)) > 0, 10000);
    wire_close(wire, true);
    ck_assert(store_settles(store));
    ck_assert_uint_eq(talk_length(host, user, &talk), messages);
}

TEST(without_the_module_device_it_is_409_before_the_body)
{
    struct host *without = host_start(&(struct host_spec){.name = "attachments-without"});
    struct person *someone = person_with_role(without, admin_of(without), "someone", "User");
    struct wire *wire = begin(without, someone, 50000000);

    ck_assert_int_eq(
        wire_read_for(wire, "POST /api/chat/conversations/{id}/attachments", SOON_MS)->status, 409);
    wire_close(wire, true);
    ask_on(without, someone, 409, NULL, "POST %s {'username':'%s'}", path_of(&talk),
           someone->email);
}

TEST(a_refused_transaction_leaves_no_file)
{
    sql_run(db, "ALTER TABLE chat_entry ADD CONSTRAINT refused CHECK (chat_entry <> 'refused')"
                " NOT VALID");
    refuses(attach(user, user->email, "refused", "refused.txt"), 500);
    sql_run(db, "ALTER TABLE chat_entry DROP CONSTRAINT refused");
}

TEST(archived_messages_keep_their_files)
{
    struct talk old = talk_start(host, platform, "old@shop.example", user->email, NULL), now = talk;

    talk = old;
    const char *id = id_of(ck_status(attach(user, user->email, "old", "old.txt"), 201)->json);

    talk = now;
    ck_status(talk_post(host, user, &old, user->email, "the latest stays"), 201);
    json_t *before = ck_status(talk_chain(host, user, &old, ""), 200)->json;

    sql_run(db, text("UPDATE chat_conversation SET last_at = now() - interval '31 days' WHERE id ="
                     " %jd",
                     old.id));
    host_says(host, 0, "chat", "archive");
    sql_is(db, 1, "SELECT count(*) FROM chat_entry WHERE conversation_id = %jd", old.id);
    host_says(host, 0, "device", "sweep");
    ck_status(fetch(user, &old, id), 200);
    ck_assert(json_equal(ck_status(talk_chain(host, user, &old, ""), 200)->json, before));
    host_says(host, 0, "device", "doctor");
    sql_run(db, text("UPDATE device_document SET size = size + 1 WHERE id = '%s'", id));
    ck_prints(host, 0, text("document old.txt of conversation %jd\n", old.id), "device", "doctor");
    sql_run(db, text("UPDATE device_document SET size = size - 1 WHERE id = '%s'", id));
    sql_run(db, "UPDATE chat_archive SET restored_at = NULL");
    sql_run(db, text("DELETE FROM chat_entry WHERE conversation_id = %jd AND seq = 2", old.id));
    talk_retention(host, " 0"); /* otherwise the job could archive them again at once */
    host_says(host, 0, "chat", "restore");
    sql_is(db, 1,
           "SELECT count(attachments) FROM chat_entry WHERE conversation_id = %jd AND seq = 2",
           old.id);
    ck_assert(json_equal(ck_status(talk_chain(host, user, &old, ""), 200)->json, before));
}

/* The first document store of its list cannot store them. */
TEST(another_host_has_the_files)
{
    struct host_spec spec = spec_of("attachments-second");

    spec.database = "attachments";
    spec.modules = text("[\"%s\", auth, chat, device]", harness_test_module("module_heap"));
    struct host *second = host_start(&spec);
    const char *id = id_of(ck_status(attach(user, user->email, "x", "second"), 201)->json);
    struct answer *got = ask_on(second, platform, 200, NULL, "GET %s/%s", path_of(&talk), id);

    struct upload_body body = body_of(user->email, "to the second host");

    ck_assert_str_eq(got->body, "content of second");
    upload_file(&body, "files", "x", "x", 1);
    ck_status(upload_send(second, "POST", path_of(&talk), user, &body), 201);
}

static int swept(void)
{
    store_age(store);
    sql_run(db, "UPDATE device_upload SET begun_at = now() - interval '1 day'");
    host_says(host, 0, "device", "sweep");
    return files_now(store);
}

TEST(the_sweep_removes_files_of_a_host_that_was_killed_before_the_commit)
{
    struct host_spec spec = spec_of("attachments-killed");
    struct upload_body body = body_of(user->email, "killed");
    int before = swept();
    size_t messages = talk_length(host, user, &talk);

    spec.database = "attachments";
    struct host *killed = host_start(&spec);

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_entry IN EXCLUSIVE MODE");
    upload_file(&body, "files", "killed.txt", "killed", 6);
    upload_close(&body);
    struct wire *wire = begin(killed, user, body.length);

    wire_send(wire, body.bytes, body.length);
    WAIT_UNTIL_MSG(store_files(store) > before &&
                       sql_number(db, "SELECT count(*) FROM device_upload"),
                   10000, "%d files", files_now(store));
    host_kill(killed);
    wire_close(wire, true);
    sql_run(db, "ROLLBACK");
    WAIT_UNTIL_MSG(swept() == before, 10000, "%d files", files_now(store));
    ck_assert_uint_eq(talk_length(host, user, &talk), messages);
}

OPENED_SUITE(attachments, open_attachments, 120)
