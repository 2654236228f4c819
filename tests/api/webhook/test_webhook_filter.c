/*
 * Filters of webhooks: what is accepted, which events are delivered, and a comparison with
 * filter_model.py, which makes random payloads and filters. BUSBAR_TEST_SEED is its seed (1).
 */
#include "deliver.h"

enum { PAYLOADS = 100 };

#define FILTERED "{'url':'" PUBLIC_URL "','events':[],'filter':"

/* A filter, and the beginning of the name of the field in the error. */
static const char *const refused[][2] = {
    {"{'a':{'$like':'x'}}", "filter.a.$like"},
    {"{'a':{'$ref':'b'}}", "filter.a.$ref"},
    {"{'a':{'$gt':null}}", "filter.a.$gt"},
    {"{'a':{'$lte':[1]}}", "filter.a.$lte"},
    {"{'a':{'$in':{}}}", "filter.a.$in"},
    {"{'a':{'$nin':[[1]]}}", "filter.a.$nin"},
    {"{'a':{'$startsWith':5}}", "filter.a.$startsWith"},
    {"{'a':{'$endsWith':[]}}", "filter.a.$endsWith"},
    {"{'a':{'b':{'$exist':'yes'}}}", "filter.a.b.$exist"},
    {"{'$or':{'a':1}}", "filter.$or"},
    {"{'$and':[{'a':1},{'b':{'$exist':1}}]}", "filter.$and[1].b.$exist"},
    {"{'$not':{'$eq':{'a':{'b':{'c':{'d':{'e':{'f':{'g':{'h':{'i':1}}}}}}}}}}}",
     "filter.$not.$eq.a"},
    {"{'a':[[1]]}", "filter.a[0]"},
    {"[]", "filter"},
    {"'a'", "filter"},
};

TEST_EACH(an_invalid_filter_is_refused_with_its_place, sizeof refused / sizeof *refused)
{
    struct answer *answer =
        ask(admin, 400, NULL, "%s", text("POST " WEBHOOKS " " FILTERED "%s}", refused[_i][0]));
    const json_t *error = json_array_get(json_object_get(answer->json, "errors"), 0);
    const char *field = json_string_value(json_object_get(error, "field"));

    ck_assert_msg(field && !strncmp(field, refused[_i][1], strlen(refused[_i][1])), "%s",
                  answer->body);
}

/*
 * Each `list` is one byte, condition or text too long. Without its first `cut` bytes it has the
 * permitted length.
 */
TEST(a_filter_is_limited_in_bytes_conditions_and_searched_texts)
{
    const struct {
        const char *before, *list, *after, *problem;
        size_t cut;
    } rows[] = {
        {"\"", text_repeated("x", 8185), "\"", "*8192 bytes", 1},
        {"{\"$in\":[", text("%s1", text_repeated("1,", 98)), "]}", "*100 conditions", 2},
        {"{\"$endsWith\":[", text("%s\"x\"", text_repeated("\"x\",", 10)), "]}", "*10 texts*", 4},
    };

    for (size_t i = 0; i < 2 * COUNT(rows); i++)
        ask(admin, i % 2 ? 400 : 201,
            i % 2 ? text("{'errors':[{'field':'filter','problem':'%s'}]}", rows[i / 2].problem)
                  : NULL,
            "POST " WEBHOOKS " {\"url\":\"" PUBLIC_URL
            "\",\"events\":[],\"filter\":{\"a\":%s%s%s}}",
            rows[i / 2].before, rows[i / 2].list + (i % 2 ? 0 : rows[i / 2].cut),
            rows[i / 2].after);
    ask(admin, 400, "{'errors':[{'field':'filter','problem':'*shorter names*'}]}",
        "POST " WEBHOOKS " " FILTERED "{'%s':{'$eq':[%s1]}}}", text_repeated("x", 7000),
        text_repeated("1,", 90));
}

TEST(numbers_in_a_filter_may_exceed_64_bits)
{
    const struct answer *made =
        ask(admin, 201, NULL, "POST " WEBHOOKS " " FILTERED "{'a':{'$gt':1e20},'b':-1e19}}");

    ck_assert_msg(
        strstr(made->body, "{\"$gt\":100000000000000000000},\"b\":-10000000000000000000}"), "%s",
        made->body);
}

TEST(only_events_that_match_are_delivered_until_the_filter_is_cleared)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "filter"),
                     "'filter':{'message':{'chatEntry':{'$startsWith':'yes'}}}");

    ask(admin, 200, "{'filter':{'message':{'chatEntry':{'$startsWith':'yes'}}}}", "GET %s",
        made.path);
    say("no 1");
    say("yes 1");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 1, 5000)->body, "yes 1"));
    ask(admin, 200, "{'filter':{'message':{'chatEntry':'yes 2'}}}",
        "PATCH %s {'filter':{'message':{'chatEntry':'yes 2'}}}", made.path);
    say("yes 1");
    say("yes 2");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 2, 5000)->body, "yes 2"));
    ask(admin, 200, "{'filter':'(absent)'}", "PATCH %s {'filter':null}", made.path);
    say("no 2");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 3, 5000)->body, "no 2"));
    sql_is(db, 3, "SELECT count(*) FROM webhook_delivery WHERE webhook = %jd", made.id);
}

/* Bodies of 2 KiB are stored once; from 16 KiB on, filters are evaluated after the commit. */
TEST(large_events_are_filtered_too)
{
    static const size_t sizes[] = {3000, 20000};
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "large"),
                     "'filter':{'message':{'chatEntry':{'$endsWith':'yes'}}}");

    for (size_t i = 0; i < 2; i++) {
        const char *filler = text_repeated("x", sizes[i]);

        say(text("%s no", filler));
        say(text("%s yes", filler));
        ck_assert_uint_gt(catcher_wait(catcher, i + 1, 5000)->length, sizes[i]);
    }
    say("the last one, yes");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 3, 5000)->body, "the last one"));
    sql_is(db, 3, "SELECT count(*) FROM webhook_delivery WHERE webhook = %jd", made.id);
}

/* jsonb cannot hold a NUL: such an event is delivered, and its request does not fail. Two
 * backslashes are an escaped one, so the rows with an even number have no NUL. */
TEST(a_payload_that_jsonb_cannot_hold_is_delivered_without_the_filter)
{
    static const char *const rows[][2] = {
        {"1", "f"},
        {"\"\\u0000\"", "t"},
        {"\"\\\\u0000\"", "f"},
        {"\"x\\\\\\u0000\"", "t"},
        {"\"\\\\\\\\u0000\"", "f"},
        {"\"\\\\u0000 \\u0000\"", "t"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_str_eq(sql_text(db, "SELECT webhook_payload($1) IS NULL", 1, &rows[i][0]),
                         rows[i][1]);
}

TEST(an_event_with_a_text_that_looks_like_a_nul_is_filtered)
{
    struct webhook_made made =
        webhook_with(host, admin, PUBLIC_URL, "'filter':{'message':{'chatEntry':'none'}}");

    say("\\u0000");
    sql_is(db, 0, "SELECT count(*) FROM webhook_delivery WHERE webhook = %jd", made.id);
}

TEST(a_filter_can_be_tested_with_the_latest_events)
{
    struct person *anna = person_make(host, admin, "filter-anna", NULL);
    struct talk talk = talk_start(host, anna, anna->email, "shop@filter.example", "Rooftop 9");
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");

    for (int i = 0; i < 3; i++)
        ck_status(talk_post(host, anna, &talk, anna->email, text("number %d", i)), 201);
    ask(anna, 200,
        "{'matched':1,'events':[{'event':'message.new','matches':false},{'matches':true},"
        "{'matches':false}]}",
        "POST %s/filter/test {'filter':{'message':{'chatEntry':'number 1'}}}", made.path);
    ask(anna, 200, "{'matched':3}", "POST %s/filter/test {'filter':{}}", made.path);
    ask(anna, 400, NULL, "POST %s/filter/test {'filter':{'$x':1}}", made.path);
    ask(anna, 400, NULL, "POST %s/filter/test {}", made.path);
    ask(person_make(host, admin, "filter-ben", NULL), 404, "Webhook not found",
        "POST %s/filter/test {'filter':{}}", made.path);
    struct webhook_made none = webhook_make(host, person_make(host, admin, "filter-cara", NULL),
                                            PUBLIC_URL, "message.new");

    ask(admin, 200, "{'matched':0,'events':[]}", "POST %s/filter/test {'filter':{}}", none.path);
}

static const json_t *model(int seed, int filters)
{
    const char *output = harness_path(text("filters.%d", seed));
    const char *const argv[] = {"python3",           TEST_SOURCES "/api/webhook/filter_model.py",
                                text("%d", seed),    text("%d", PAYLOADS),
                                text("%d", filters), NULL};
    const struct process_spec spec = {
        .argv = argv, .output = output, .log = harness_path("filters.log")};

    ck_assert_int_eq(process_run(&spec), 0);
    return json_of(file_text(output));
}

/* The payloads are stored as deliveries of an inactive webhook, so they are not sent. */
static void compare(int seed, int filters)
{
    struct person *owner = person_make(host, admin, text("filter-model-%d", seed), NULL);
    struct webhook_made made = webhook_make(host, owner, PUBLIC_URL, "message.new");
    const json_t *all = model(seed, filters);
    const json_t *payloads = json_object_get(all, "payloads"), *pair;
    size_t i, row;

    ask(owner, 200, NULL, "PATCH %s {'active':false}", made.path);
    for (i = 0; i < PAYLOADS; i++) {
        const char *body = kept(json_dumps(json_array_get(payloads, i), JSON_COMPACT));
        const char *const values[] = {text("%jd", made.id), body};

        sql_text(db,
                 "INSERT INTO webhook_delivery (webhook, event, event_id, body) VALUES ($1::bigint,"
                 " 'message.new', gen_random_uuid(), $2) RETURNING id",
                 2, values);
    }
    json_array_foreach (json_object_get(all, "filters"), i, pair) {
        json_t *body = json_pack("{sO}", "filter", json_array_get(pair, 0));
        struct answer *answer = ck_status(
            http(host, "POST", text("%s/filter/test", made.path), owner->token, body), 200);
        const json_t *events = json_object_get(answer->json, "events");

        ck_assert_uint_eq(json_array_size(events), PAYLOADS);
        for (row = 0; row < PAYLOADS; row++) { /* newest first */
            const json_t *event = json_array_get(events, PAYLOADS - 1 - row);

            ck_assert_msg(json_equal(json_object_get(event, "matches"),
                                     json_array_get(json_array_get(pair, 1), row)),
                          "seed %d: the model disagrees: filter %s, payload %s", seed,
                          json_dumps(json_array_get(pair, 0), 0),
                          json_dumps(json_array_get(payloads, row), 0));
        }
    }
}

TEST(random_filters_match_the_same_payloads_as_in_a_model)
{
    const char *seed = getenv("BUSBAR_TEST_SEED");

    for (int i = 0; i < repetitions(1, 3); i++)
        compare((seed ? atoi(seed) : 1) + i, 200);
}

DELIVER_SUITE(webhook_filter, "", 240)
