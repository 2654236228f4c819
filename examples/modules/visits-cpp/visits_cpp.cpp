/* visits_cpp: counts the visits of each caller, in C++20; visits-rust is the same in Rust. */
#include <busbar/busbar.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace
{

constexpr bb_sql count_visit = {
    "INSERT INTO visits_cpp VALUES ($1, $2::bigint) ON CONFLICT (email) "
    "DO UPDATE SET n = visits_cpp.n + $2::bigint RETURNING n",
    BB_SQL_WRITE};

/* Throws std::out_of_range if the greeting does not contain {name}. */
std::string greet(std::string greeting, std::string_view name)
{
    constexpr std::string_view place = "{name}";

    return greeting.replace(greeting.find(place), place.size(), name);
}

struct visits_settings {
    const char *greeting;
    int64_t step;
};

int visit(bb_request *rq)
{
    const auto *settings = static_cast<const visits_settings *>(bb_settings(rq->host));
    const char *name = bb_text(rq, "name");
    const bb_rows *rows =
        bb_query(rq, &count_visit, BB_ARGS(bb_t(rq->principal->email), bb_i(settings->step)));

    if (!rows)
        return bb_failed(rq);
    json_t *text = json_string(greet(settings->greeting, name).c_str());

    return bb_reply(rq, 200,
                    json_pack("{s:o, s:I}", "text", text, "visits",
                              static_cast<json_int_t>(bb_cell_int(rq, rows, 0, 0))));
}

/*
 * Wraps each function that the host calls, because the host is C and no exception may reach it. A
 * catch block must not call a function that parks, because other requests of the thread may throw
 * meanwhile.
 */
template <int (*handler)(bb_request *)> int guarded(bb_request *rq)
{
    char what[200] = "an exception";

    try {
        return handler(rq);
    } catch (const std::exception &thrown) {
        std::snprintf(what, sizeof what, "%s", thrown.what());
    } catch (...) {
    }
    bb_log(rq, BB_ERROR, "a handler threw: %s", what);
    return bb_fail_text(rq, 500, nullptr);
}

constexpr bb_field settings[] = {
    {.name = "greeting",
     .type = BB_TEXT,
     .max = 80,
     .fallback = "Welcome, {name}",
     .help = "What it says; {name} is the visitor's.",
     .bind = BB_BIND(visits_settings, greeting)},
    {.name = "step",
     .type = BB_INT,
     .min = 1,
     .max = 10,
     .fallback = "1",
     .help = "What a visit counts.",
     .bind = BB_BIND(visits_settings, step)},
};
constexpr bb_field body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .max = 80}};
constexpr bb_field reply[] = {
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED},
    {.name = "visits", .type = BB_INT, .flags = BB_REQUIRED, .help = "Of the caller."}};
constexpr bb_route routes[] = {{.method = "POST",
                                .path = "/api/visits-cpp",
                                .roles = BB_ANY_ROLE,
                                .handler = guarded<visit>,
                                .body = BB_TABLE(body),
                                .reply = BB_TABLE(reply),
                                .help = "Counts a visit of the caller."}};

} // namespace

const bb_module busbar_module = {
    BB_MODULE_HEAD("visits_cpp", "1.0.0"),
    .schema = "-- step 1: the visits of each account\n"
              "CREATE TABLE visits_cpp (email text PRIMARY KEY, n bigint NOT NULL);\n",
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .settings_size = sizeof(visits_settings),
};
