/* The first module of docs/modules.md, written by `busbar module new` and built from the package.
 */
#include "hello.h"
#include "stage.h"

static struct person *ada, *bo;

static void set_up(void)
{
    struct host_spec spec = {
        .name = "notes",
        .modules = text("[auth, \"%s\", \"%s\"]",
                        module_build("notes", "--with route,event,setting", "c", NULL, NULL),
                        harness_test_module("module_spy")),
        .more = "notes:\n  per_account: 3\n",
    };

    stage_open(&spec);
    database_soon(the_postgres, spec.name, "SELECT count(to_regclass('notes_note'))");
    spy_await(spec.name);
    ada = person_make(host, admin, "notes.ada", NULL);
    bo = person_make(host, admin, "notes.bo", NULL);
}

static struct answer *note(const struct person *who, const char *body)
{
    return http(host, "POST", "/api/notes", who->token, json_pack("{s:s}", "text", body));
}

TEST(a_note_is_stored_and_its_event_sent_to_its_author)
{
    struct answer *answer = ck_status(note(bo, "buy a meter"), 201);
    const char *values[] = {text("%lld", (long long)answer_int(answer, "id"))};

    ck_assert_str_eq(answer_text(answer, "text"), "buy a meter");
    ck_assert_str_eq(sql_text(db,
                              "SELECT emails FROM spy_event WHERE name = 'note.created'"
                              " AND payload::json->>'id' = $1",
                              1, values),
                     bo->email);
}

TEST(blank_notes_and_too_many_notes_are_refused)
{
    struct person *cy = person_make(host, admin, "notes.cy", NULL);

    ck_error(note(cy, " "), 400, "");
    for (int i = 0; i < 3; i++)
        ck_status(note(cy, "a"), 201);
    ck_error(note(cy, "b"), 409, "You have too many notes.");
    sql_is(db, 0, "SELECT count(*) FROM notes_note WHERE body = 'b'");
    sql_is(db, 0,
           "SELECT count(*) FROM spy_event WHERE name = 'note.created'"
           " AND payload::json->>'text' = 'b'");
}

TEST(notes_are_listed_in_pages)
{
    struct answer *answer;

    for (int i = 0; i < 3; i++)
        ck_status(note(ada, text("note %d", i)), 201);
    answer = ck_status(http(host, "GET", "/api/notes?limit=2", ada->token, NULL), 200);
    ck_assert_uint_eq(json_array_size(answer->json), 2);
    json_t *last = json_array_get(answer->json, 1);
    long long id = json_integer_value(json_object_get(last, "id"));
    const char *link = answer_header(answer, "Link");

    ck_assert_str_eq(json_string_value(json_object_get(last, "text")), "note 1");
    ck_assert_msg(link && strstr(link, text("after=%lld", id)), "%s", link);
    answer = ck_status(
        http(host, "GET", text("/api/notes?limit=2&after=%lld", id), ada->token, NULL), 200);
    ck_assert_uint_eq(json_array_size(answer->json), 1);
    ck_assert_ptr_null(answer_header(answer, "Link"));
}

STAGE_SUITE(notes, set_up, 60)
