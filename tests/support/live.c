#include "live.h"

struct person *platform;

const struct host_spec live_spec = {
    .http = "  cors_origins: [\"https://platform.example\"]\n",
    .chat = "  stream_heartbeat: 1\n  stream_buffer: 64\n",
    .modules = "[auth, chat, health]",
};

struct host *live_host_with(const char *name, const char *database, const char *http,
                            const char *chat)
{
    struct host_spec spec = live_spec;

    spec.name = name;
    spec.database = database;
    spec.http = text("%s%s", spec.http, http);
    spec.chat = text("%s%s", spec.chat, chat);
    return host_start(&spec);
}

struct host *live_host(const char *name, const char *database)
{
    return live_host_with(name, database, "", "");
}

struct sse *live_listen(const struct host *on, const struct person *who, const char *last)
{
    struct sse *sse = sse_open(on, who->token, last, 0);

    ck_assert_msg(sse->status == 200, "%s", sse->headers);
    return sse;
}

void live_post(const struct host *on, const struct talk *talk, const char *username,
               const char *entry)
{
    ck_status(talk_post(on, platform, talk, username, entry), 201);
}

void live_expect(struct sse *sse, const char *entry)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert_msg(event, "no event, waiting for \"%s\"%s", entry, sse->ended ? ": ended" : "");
    ck_assert_str_eq(sse_entry(event), entry);
}

void live_silence(struct sse *sse)
{
    struct sse_event *event = sse_within(sse, QUIET_MS);

    ck_assert_msg(!event, "unexpected event: %s", event ? event->data : "");
    ck_assert(!sse->ended);
}

void live_reset(struct sse *sse)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert_msg(event && event->name && !strcmp(event->name, "reset"), "no reset%s",
                  sse->ended ? ": ended" : "");
}

void live_start(const char *name)
{
    struct host_spec spec = live_spec;

    spec.name = name;
    pair_open(&spec);
    platform = person_make(host, admin, "streaming", NULL);
}
