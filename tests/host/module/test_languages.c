/*
 * Modules in C++ and in Rust, as `busbar module new` writes them, in a host: settings, statements
 * and responses, reloads, exceptions and panics, and requests that run out of memory.
 */
#include "hello.h"
#include "stage.h"

/* The text of a new note decides what the handler does; "ends" returns the number of destructor
 * runs. */
static const struct edit in_cpp[] = {
    {"namespace\n{\n", "#include <atomic>\n"
                       "namespace\n{\n"
                       "std::atomic<int64_t> ends;\n"
                       "struct mark {\n    ~mark()\n    {\n        ends++;\n    }\n};\n"},
    {"    busbar::unit unit",
     "    const std::string_view order(text);\n"
     "    mark outer;\n"
     "    auto starve = [](bb_request *raw) { return bb_alloc(raw, SIZE_MAX / 4); };\n\n"
     "    if (order == \"ends\")\n"
     "        return rq.reply(201, item(ends, text));\n"
     "    if (order == \"throw\")\n"
     "        throw std::runtime_error(\"an order\");\n"
     "    if (order == \"refuse\")\n"
     "        throw busbar::refused(422, \"An order.\");\n"
     "    if (order == \"starve\")\n"
     "        rq.call(starve);\n"
     "    if (order == \"transact\")\n"
     "        return rq.transact([&](busbar::transaction &tx) {\n"
     "            tx.query(insert, caller.account, id, text);\n"
     "            return rq.reply(201, item(id, text));\n"
     "        });\n"
     "    if (order == \"starve inside\")\n"
     "        return rq.transact([&](busbar::transaction &tx) {\n"
     "            mark inner;\n\n"
     "            tx.query(insert, caller.account, id, text);\n"
     "            rq.call(starve);\n"
     "            return rq.reply(201, item(id, text));\n"
     "        });\n"
     "    busbar::unit unit"},
    {NULL, NULL}};
static const struct edit in_rust[] = {
    {"use busbar::*;\n", "use busbar::*;\n"
                         "use std::sync::atomic::{AtomicI64, Ordering};\n\n"
                         "static ENDS: AtomicI64 = AtomicI64::new(0);\n"
                         "struct Mark;\n"
                         "impl Drop for Mark {\n    fn drop(&mut self) {\n"
                         "        ENDS.fetch_add(1, Ordering::Relaxed);\n    }\n}\n"},
    {"    let unit = ",
     "    let _outer = Mark;\n\n"
     "    match text {\n"
     "        \"ends\" => return rq.reply(201, item(ENDS.load(Ordering::Relaxed), text)),\n"
     "        \"throw\" => panic!(\"an order\"),\n"
     "        \"refuse\" => return Err(Error::status(422, \"An order.\")),\n"
     "        \"starve\" => {\n"
     "            rq.alloc(usize::MAX / 4)?;\n"
     "        }\n"
     "        \"transact\" | \"starve inside\" => {\n"
     "            return rq.transaction(|tx| {\n"
     "                let _inner = (text == \"starve inside\").then(|| Mark);\n\n"
     "                tx.query(&INSERT, &[caller.account().into(), id.into(), text.into()])?;\n"
     "                if _inner.is_some() {\n"
     "                    rq.alloc(usize::MAX / 4)?;\n"
     "                }\n"
     "                rq.reply(201, item(id, text))\n"
     "            })\n"
     "        }\n"
     "        _ => {}\n"
     "    }\n"
     "    let unit = "},
    {NULL, NULL}};

static const char *const names[] = {"cpps", "rusts"};
static struct host_spec spec;
static const char *token;

#define LIMITS(most) "cpps:\n  per_account: " most "\nrusts:\n  per_account: " most "\n"

static void set_up(void)
{
    const char *rustc = access("/usr/bin/rustc", X_OK) ? "RUSTC=rustc" : "RUSTC=/usr/bin/rustc";
    const char *all = "--with route,event,job,setting,bulk --lang";

    spec = (struct host_spec){
        .name = "languages",
        .database = database_make(the_postgres, "languages"),
        .modules = text("[auth, bulk, chat, health, \"%s\", \"%s\"]",
                        module_build("cpps", text("%s cpp", all), "cpp", in_cpp, "CXX=g++"),
                        module_build("rusts", text("%s rust", all), "rs", in_rust, rustc)),
        .more = text("bulk:\n  files: \"%s\"\n" LIMITS("1000"), harness_path("languages-bulk")),
    };
    host = host_start(&spec);
    database_soon(the_postgres, spec.database,
                  "SELECT count(to_regclass('cpps_cpp')) * count(to_regclass('rusts_rust'))");
    token = admin_of(host)->token;
}

static struct answer *note(const char *name, const char *content)
{
    return http(host, "POST", text("/api/%s", name), token, json_pack("{s:s}", "text", content));
}

static void reload(const char *limits, int expected, const char *says)
{
    spec.more = text("bulk:\n  files: \"%s\"\n%s", harness_path("languages-bulk"), limits);
    file_write(host->conf, host_configuration(&spec));
    ck_prints(host, expected, says, "reload");
}

static long long ends(const char *name)
{
    return answer_int(ck_status(note(name, "ends"), 201), "id");
}

TEST(modules_in_cpp_and_rust_serve_requests)
{
    for (size_t i = 0; i < 2; i++) {
        const char *path = text("/api/%s?limit=1", names[i]);
        struct answer *answer = ck_status(note(names[i], "Zo\u00eb"), 201);
        long long id = answer_int(answer, "id");

        ck_assert_str_eq(answer_text(answer, "text"), "Zo\u00eb");
        ck_status(note(names[i], "transact"), 201);
        answer = ck_status(http(host, "GET", path, token, NULL), 200);
        ck_assert_str_eq(answer->body, text("[{\"id\":%lld,\"text\":\"Zo\u00eb\"}]", id));
        const char *link = answer_header(answer, "Link");

        ck_assert_msg(link && strstr(link, text("after=%lld", id)), "%s", link);
        ck_error(note(names[i], " "), 400, "");
        ck_error(note(names[i], "refuse"), 422, "An order.");
        ck_status(http(host, "POST", text("/api/%s", names[i]), NULL, json_object()), 401);
    }
}

TEST(modules_in_cpp_and_rust_check_their_settings)
{
    reload(LIMITS("0"), 1, "cpps.per_account");
    reload("rusts:\n  per_account: two\n", 1, "rusts.per_account");
    reload(LIMITS("1"), 0, "is live");
    for (size_t i = 0; i < 2; i++) {
        note(names[i], "one");
        ck_error(note(names[i], "two"), 409, text("You have too many %s.", names[i]));
    }
    reload(LIMITS("1000"), 0, "is live");
}

/* Repeats the test in several generations, which share the module's code. */
TEST(exceptions_and_panics_of_modules_become_500)
{
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < 2; i++)
            for (int n = 0; n < 8; n++)
                ck_error(note(names[i], "throw"), 500, "");
        reload(LIMITS("1000"), 0, "is live");
        for (size_t i = 0; i < 2; i++)
            ck_status(note(names[i], "again"), 201);
    }
    host_logs(host, 0, "a handler threw: an order");
    host_logs(host, 0, "a handler panicked");
}

TEST(destructors_run_if_memory_runs_out_in_the_host)
{
    for (size_t i = 0; i < 2; i++) {
        long long before = ends(names[i]);

        for (int n = 0; n < 8; n++) {
            ck_error(note(names[i], "starve"), 503, "");
            ck_error(note(names[i], "starve inside"), 503, "");
        }
        /* also the outer mark of the first call */
        ck_assert_int_eq(ends(names[i]), before + 1 + 8 * 3);
        ck_status(note(names[i], "again"), 201);
        ck_assert_str_eq(ask(bearer(token), 200, NULL, "GET /api/%s?after=1000000", names[i])->body,
                         "[]");
    }
    PGconn *connection = database_connect(the_postgres, spec.database);

    sql_is(connection, 0, "SELECT count(*) FROM cpps_cpp WHERE body LIKE 'starve%%'");
    sql_is(connection, 0, "SELECT count(*) FROM rusts_rust WHERE body LIKE 'starve%%'");
}

STAGE_SUITE(languages, set_up, 60)
