#include "core/lib/redis_url.h"
#include "fixture.h"
#include "suite.h"

/* Describes what was parsed, or "invalid". */
static const char *described(const char *text)
{
    static char out[512];
    struct redis_url url;

    if (redis_url_parse(text, arena, &url))
        return "invalid";
    size_t at = (size_t)snprintf(out, sizeof out, "%s%s%s", url.tls ? "tls " : "",
                                 url.path ? "path=" : "", url.path ? url.path : "");

    for (size_t i = 0; i < url.count; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%s|%s", i ? " " : "",
                               url.servers[i].host, url.servers[i].port);
    if (url.password)
        at += (size_t)snprintf(out + at, sizeof out - at, " user=%s password=%s",
                               url.user ? url.user : "", url.password);
    if (url.master)
        at += (size_t)snprintf(out + at, sizeof out - at, " master=%s", url.master);
    if (url.database)
        snprintf(out + at, sizeof out - at, " database=%u", url.database);
    return out;
}

static const char *const urls[][2] = {
    {"unix:/run/redis.sock", "path=/run/redis.sock"},
    {"cache:6379", "cache|6379"},
    {"[::1]:6379", "::1|6379"},
    {"redis://cache", "cache|6379"},
    {"redis://cache:7000/", "cache|7000"},
    {"redis://cache/3", "cache|6379 database=3"},
    {"redis://[2001:db8::1]/1", "2001:db8::1|6379 database=1"},
    {"redis://pass@cache", "cache|6379 user= password=pass"},
    {"redis://:p%40ss@cache", "cache|6379 user= password=p@ss"},
    {"redis://app:a:b@cache", "cache|6379 user=app password=a:b"},
    {"rediss://app:p@c@cache:1/9", "tls cache|1 user=app password=p@c database=9"},
    {"redis+sentinel://s1/main", "s1|26379 master=main"},
    {"redis+sentinel://s1:1,[::2],s3:3/main/2", "s1|1 ::2|26379 s3|3 master=main database=2"},
    {"rediss+sentinel://u:p@s1,s2/a%2Fb", "tls s1|26379 s2|26379 user=u password=p master=a/b"},
    {"", "invalid"},
    {"cache", "invalid"},
    {"cache:", "invalid"},
    {":6379", "invalid"},
    {"cache:65535", "cache|65535"},
    {"cache:65536", "invalid"},
    {"cache:1", "cache|1"},
    {"cache:0", "invalid"},
    {"cache:6379/1", "invalid"},
    {"a:1,b:2", "invalid"},
    {"unix:run/redis.sock", "invalid"},
    {"http://cache", "invalid"},
    {"redis://", "invalid"},
    {"redis:///1", "invalid"},
    {"redis://a,b", "invalid"},
    {"redis://cache/one", "invalid"},
    {"redis://cache/65535", "cache|6379 database=65535"},
    {"redis://cache/65536", "invalid"},
    {"redis://cache/1/2", "invalid"},
    {"redis://@cache", "invalid"},
    {"redis://u:@cache", "invalid"},
    {"redis://u:%zz@cache", "invalid"},
    {"redis://u:%00@cache", "invalid"},
    {"redis://[::1", "invalid"},
    {"redis://[::1]x", "invalid"},
    {"redis+sentinel://s1", "invalid"},
    {"redis+sentinel://s1/", "invalid"},
    {"redis+sentinel://s1,/main", "invalid"},
    {"redis+sentinel://s1/main/x", "invalid"},
    {"redis+sentinel://a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1/main",
     "a|1 b|1 c|1 d|1 e|1 f|1 g|1 h|1 master=main"},
    {"redis+sentinel://a,b,c,d,e,f,g,h,i/main", "invalid"},
};

TEST_EACH(a_redis_url_is_parsed_or_refused, sizeof urls / sizeof *urls)
{
    ck_assert_str_eq(described(urls[_i][0]), urls[_i][1]);
}

SUITE(redis_url, .before_each = arena_setup, .after_each = arena_teardown)
