/* The router: the route of each path, and malformed paths, which must not find a route. */
#include "core/module/route.h"
#include "fixture.h"
#include "route_rows.h"
#include "suite.h"

static struct router *router;
static char why[160];

static void setup(void)
{
    arena_setup();
    router = router_new(arena);
    for (size_t i = 0; i < COUNT(routes); i++)
        ck_assert_msg(!router_add(router, &routes[i], (void *)&routes[i], why, sizeof(why)), "%s",
                      why);
}

static void leads(const char *method, const char *path, int index)
{
    struct route_match match;

    ck_assert_msg(router_match(router, method, path, &match) == ROUTE_OK, "%s %s", method, path);
    ck_assert_ptr_eq(match.route, &routes[index]);
    ck_assert_ptr_eq(match.owner, &routes[index]);
}

static void finds(const char *method, const char *path, enum route_found found)
{
    struct route_match match;
    enum route_found got = router_match(router, method, path, &match);

    ck_assert_msg(got == found, "%s %s: %d", method, path, (int)got);
    ck_assert_ptr_null(match.route);
}

TEST(paths_lead_to_their_routes)
{
    leads("GET", "/", 0);
    leads("GET", "/api/health", 1);
    leads("GET", "/api/health/", 1);
    leads("HEAD", "/api/health", 1);
    leads("POST", "/api/device", 3);
    leads("GET", "/api/device/7", 4);
    leads("PATCH", "/api/device/7", 5);
    leads("GET", "/api/device/7/documents/x", 7);
}

TEST(static_segments_take_precedence_but_do_not_shadow)
{
    leads("GET", "/api/device/by-site", 6);
    leads("PATCH", "/api/device/by-site", 5);
    leads("GET", "/api/device/by-site/documents/x", 7);
    leads("DELETE", "/api/device/by-site/documents", 8);
    leads("GET", "/api/device/by-sit%65", 4);
}

TEST(path_segments_are_given_undecoded_with_their_rows)
{
    struct route_match match;

    ck_assert_int_eq(router_match(router, "GET", "/api/device/a%2Fb;x/documents/%3a", &match),
                     ROUTE_OK);
    ck_assert_uint_eq(match.count, 2);
    ck_assert_uint_eq(match.segment[0].length, 7);
    ck_assert_int_eq(strncmp(match.segment[0].start, "a%2Fb;x", 7), 0);
    ck_assert_str_eq(match.segment[0].field->name, "id");
    ck_assert_int_eq(strncmp(match.segment[1].start, "%3a", 3), 0);
    ck_assert_str_eq(match.segment[1].field->name, "file");
}

TEST(unknown_paths_are_not_found)
{
    EACH_TEXT (path, "/x", "/api", "/api/", "/api/nope/", "/api/device/7/nope/", "/api/HEALTH",
               "/api/health;x", "/api/%68ealth", "/api%2fhealth", "/api/device/1/documents", "",
               "api/health", "*", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s")
        finds("GET", path, ROUTE_NO_PATH);
    finds("BREW", "/nothing", ROUTE_NO_PATH);
}

TEST(ambiguous_paths_are_bad_requests)
{
    EACH_TEXT (path, "//", "//api/health", "/api//health", "/api/./health", "/api/../api/health",
               "/api/%2e/health", "/api/%2E%2e/health", "/api/.%2e/health", "/api/device/..",
               "/api/device/.", "/api/health//", "/api/device/%", "/api/device/%4",
               "/api/device/%zz", "/api/device/a%00b", "/api/device/a%0ab", "/api/health%00x")
        finds("GET", path, ROUTE_BAD_PATH);
    leads("GET", "/api/device/...", 4);
    leads("GET", "/api/device/%252e", 4);
}

TEST(other_methods_get_the_allowed_methods)
{
    struct route_match match;

    ck_assert_int_eq(router_match(router, "DELETE", "/api/device/7", &match), ROUTE_NO_METHOD);
    ck_assert_str_eq(match.allow, "GET, HEAD, PATCH");
    ck_assert_int_eq(router_match(router, "TRACE", "/api/device", &match), ROUTE_NO_METHOD);
    ck_assert_str_eq(match.allow, "GET, HEAD, POST");
    ck_assert_int_eq(router_match(router, "get", "/api/health", &match), ROUTE_NO_METHOD);
    ck_assert_str_eq(match.allow, "GET, HEAD");
    ck_assert_int_eq(router_match(router, "HEAD", "/api/device/by-site/documents", &match),
                     ROUTE_NO_METHOD);
    ck_assert_str_eq(match.allow, "DELETE");
}

TEST(bad_routes_are_refused_with_the_reason)
{
    static const struct {
        struct bb_route route;
        const char *reason;
    } rows[] = {
        {ROUTE("GET", "/api/health", .flags = 0), "another route has the same method and pattern"},
        {{.method = "GET", .path = "/n"}, "no roles"},
        {ROUTE("HEAD", "/n", .flags = 0), "unknown method"},
        {ROUTE("get", "/n", .flags = 0), "unknown method"},
        {ROUTE(NULL, "/n", .flags = 0), "unknown method"},
        {ROUTE("GET", NULL, .flags = 0), "bad path"},
        {ROUTE("GET", "n", .flags = 0), "bad path"},
        {ROUTE("GET", "/n/", .flags = 0), "bad path"},
        {ROUTE("GET", "/n//m", .flags = 0), "bad path"},
        {ROUTE("GET", "/n/../m", .flags = 0), "bad path"},
        {ROUTE("GET", "/n m", .flags = 0), "bad path"},
        {ROUTE("GET", "/n/:id", .flags = 0), "has no row in segments"},
        {ROUTE("GET", "/n/:", .segments = BB_TABLE(id)), "has no row in segments"},
        {ROUTE("GET", "/n", .segments = BB_TABLE(id)), "is not in the path"},
        {ROUTE("GET", "/n/:id/:id", .segments = BB_TABLE(id)), "is given twice"},
        {ROUTE("GET", "/api/device/:other", .segments = BB_TABLE(id)), "has no row in segments"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(router_add(router, &rows[i].route, NULL, why, sizeof(why)), -1);
        ck_assert_msg(strstr(why, rows[i].reason) != NULL, "%s", why);
    }
    finds("GET", "/n", ROUTE_NO_PATH);
}

SUITE(route, .before_each = setup, .after_each = arena_teardown)
