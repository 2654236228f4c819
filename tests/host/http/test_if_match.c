/*
 * If-Match: a change of a device, webhook or account is refused with 412 unless the header has the
 * ETag of the object as it is now. Without the header nothing changes.
 */
#include "hook.h"
#include "stage.h"

enum { KINDS = 3, WRITERS = 8 };

static struct person *m;

/* An object, and a change of it: the member `name` becomes a text. */
struct object {
    const char *path, *method, *name;
};

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "if_match",
                                   .modules = "[auth, chat, health, webhook, device]",
                                   .more = WEBHOOK_LOCAL});
    webhook_ready("if_match", 1);
    m = person_make(host, admin, "if-match", NULL);
}

/* Makes a new object of a kind. The Admin changes accounts; other objects are m's. */
static struct object object_make(int kind)
{
    int count = (int)getpid(); /* unique, because each test is a process and makes one object */

    if (kind == 0) {
        ask(m, 201, NULL, "POST /api/device {'externalId':'match-%d','siteName':'first'}", count);
        return (struct object){text("/api/device/match-%d", count), "PATCH", "siteName"};
    }
    if (kind == 1)
        return (struct object){webhook_make(host, m, PUBLIC_URL, "message.new").path, "PATCH",
                               "description"};
    const struct person *changed = person_register(host, text("matched-%d", count), NULL);

    return (struct object){text("/api/admin/users/%jd", changed->id), "PUT", "firstName"};
}

static const char *token_of(const struct object *object)
{
    return strcmp(object->method, "PUT") ? m->token : admin->token;
}

static struct answer *object_get(const struct object *object)
{
    return ck_status(http(host, "GET", object->path, token_of(object), NULL), 200);
}

static const char *tag_of(const struct answer *answer)
{
    const char *tag = answer_header(answer, "ETag");

    ck_assert_ptr_nonnull(tag);
    ck_assert_uint_eq(strlen(tag), 26);
    ck_assert(tag[0] == '"' && tag[25] == '"');
    return tag;
}

/* Returns a change of the object with this If-Match (NULL: none). */
static struct call call_of(const struct object *object, const char *value, const char *match)
{
    static const char *headers[2]; /* calls that are sent together have the same headers */

    headers[0] = match ? text("If-Match: %s", match) : NULL;
    return (struct call){.method = object->method,
                         .path = object->path,
                         .token = token_of(object),
                         .body = text("{\"%s\":\"%s\"}", object->name, value),
                         .headers = headers};
}

static struct answer *object_change(const struct object *object, const char *value,
                                    const char *match)
{
    struct call call = call_of(object, value, match);

    return http_send(host, &call);
}

static void value_is(const struct object *object, const char *value)
{
    ck_assert_str_eq(answer_text(object_get(object), object->name), value);
}

TEST_EACH(a_change_of_an_old_state_is_refused, KINDS)
{
    struct object object = object_make(_i);
    const char *first = tag_of(object_get(&object));

    ck_assert_str_eq(tag_of(object_get(&object)), first);
    struct answer *changed = ck_status(object_change(&object, "second", first), 200);

    ck_assert_str_ne(tag_of(changed), first);
    ck_assert_str_eq(tag_of(changed), tag_of(object_get(&object)));
    ck_error(object_change(&object, "third", first), 412, "The object has changed");
    value_is(&object, "second");
    ck_status(object_change(&object, "third", tag_of(changed)), 200);
    value_is(&object, "third");
}

TEST_EACH(a_missing_object_is_412_with_the_header_and_404_without, KINDS)
{
    struct object object = object_make(_i);
    const char *tag = tag_of(object_get(&object));

    object.path =
        _i ? text("%.*s/999999", (int)(strrchr(object.path, '/') - object.path), object.path)
           : "/api/device/none";
    ck_error(object_change(&object, "x", "*"), 412, "The object has changed");
    ck_error(object_change(&object, "x", tag), 412, "The object has changed");
    ck_error(object_change(&object, "x", NULL), 404, "");
}

/* An object of somebody else gets the same response as one that does not exist. */
TEST(a_foreign_object_cannot_be_probed)
{
    struct object object = object_make(0);
    struct call call = call_of(&object, "second", tag_of(object_get(&object)));

    call.token = person_make(host, admin, "if-match-other", NULL)->token;
    ck_error(http_send(host, &call), 412, "The object has changed");
}

/* %s: the object's current tag. */
static const struct {
    const char *value;
    long status;
} values[] = {
    {"*", 200},           {"%s", 200},           {"\"a\", %s", 200},
    {"%s,\"a\"", 200},    {" ,, %s ,,", 200},    {"\"a\",\"b, c\", %s", 200},
    {"W/\"a\", %s", 200}, {"W/%s", 412},         {"W/%s, W/\"a\"", 412},
    {"\"a\"", 412},       {"\"\"", 412},         {"\"*\"", 412},
    {"\"a, b\"", 412},    {"\"\xc3\xa4\"", 412}, {"w/%s", 400},
    {"a", 400},           {"W/", 400},           {"\"", 400},
    {"\"a\"b", 400},      {"%s%s", 400},         {"%s, junk", 400},
    {"junk, %s", 400},    {"*, %s", 400},        {"**", 400},
    {",", 400},           {"'%s'", 400},         {"%s; x", 400},
};

TEST_EACH(lists_weak_tags_and_malformed_values_follow_rfc_9110, COUNT(values))
{
    struct object object = object_make(0);
    const char *tag = tag_of(object_get(&object)), *match = "";

    for (const char *at = values[_i].value; *at; at++)
        match = at[0] == '%' ? text("%s%s", match, (at++, tag)) : text("%s%c", match, *at);
    ck_status(object_change(&object, "second", match), values[_i].status);
    value_is(&object, values[_i].status == 200 ? "second" : "first");
}

TEST(several_lines_and_a_very_long_list_are_one_list)
{
    struct object object = object_make(0);
    const char *tag = tag_of(object_get(&object)), *list = "\"a\"";

    while (strlen(list) < 6000)
        list = text("%s,%s", list, list);
    ck_status(object_change(&object, "second", list), 412);
    ck_status(object_change(&object, "second", text("%s\r\nIf-Match: %s", list, tag)), 200);
}

/* A body that is not valid is named even if the state is old. */
TEST(an_invalid_body_is_400_before_the_state_is_compared)
{
    struct object object = object_make(0);

    object.name = "capacity";
    ck_status(object_change(&object, "many", "\"a\""), 400);
}

TEST(the_tag_of_a_device_depends_on_its_documents)
{
    struct object object = object_make(0);
    const char *tag = tag_of(object_get(&object));

    sql_run(db, text("INSERT INTO device_document (id, device, field, name, type, size, sha256,"
                     " created_at, place, organisation) SELECT gen_random_uuid(), id, 'COD_PROOF',"
                     " 'a', 'b', 1, '\\x00', now(), 0, organisation FROM device"
                     " WHERE external_id = '%s'",
                     strrchr(object.path, '/') + 1));
    ck_assert_str_ne(tag_of(object_get(&object)), tag);
    ck_status(object_change(&object, "second", tag), 412);
}

/* Deliveries change a webhook's health while somebody edits it. */
TEST(the_health_of_a_webhook_does_not_change_its_tag)
{
    struct object object = object_make(1);
    const char *tag = tag_of(object_get(&object));

    sql_run(db, text("UPDATE webhook_hook SET failing_since = now(), last_success_at = now()"
                     " WHERE id = %s",
                     strrchr(object.path, '/') + 1));
    expect_json(object_get(&object)->json, "{'health':'failing','lastSuccessAt':'*'}");
    ck_assert_str_eq(tag_of(object_get(&object)), tag);
    ck_status(object_change(&object, "second", tag), 200);
}

/* All clients have read the same state; exactly one of them changes it. */
TEST_EACH(one_of_several_changes_at_the_same_time_wins, KINDS)
{
    struct object object = object_make(_i);
    const char *tag = tag_of(object_get(&object));
    struct call calls[WRITERS];
    struct answer *answers[WRITERS];
    int winner = -1;

    for (int i = 0; i < WRITERS; i++)
        calls[i] = call_of(&object, text("writer %d", i), tag);
    parallel(host, calls, answers, WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        if (answers[i]->status == 200) {
            ck_assert_int_eq(winner, -1);
            winner = i;
        } else {
            ck_error(answers[i], 412, "The object has changed");
        }
    }
    ck_assert_int_ge(winner, 0);
    value_is(&object, text("writer %d", winner));
}

/* The change waits for another one that is already in its transaction, and then sees its result. */
TEST(a_change_waits_for_the_lock_before_it_compares)
{
    struct object object = object_make(0);
    struct call call = call_of(&object, "second", tag_of(object_get(&object)));

    sql_run(db, "BEGIN");
    sql_run(db, text("UPDATE device SET site_name = 'meanwhile' WHERE external_id = '%s'",
                     strrchr(object.path, '/') + 1));
    struct pending_call *pending = call_begin(host, &call);

    sql_soon(db, "SELECT count(*) FROM pg_locks WHERE NOT granted");
    sql_run(db, "COMMIT");
    ck_error(call_end(pending), 412, "The object has changed");
    value_is(&object, "meanwhile");
}

STAGE_SUITE(if_match, set_up, 60)
