#include <stdatomic.h>

#include "exchange.h"
#include "talk.h"

struct answer *talk_try(const struct host *host, const struct person *by, const char *user,
                        const char *other, const char *device, const char *entry)
{
    return http(host, "POST", "/api/chat/conversations/start", by->token,
                json_pack("{ss ss ss ss ss?}", "participant1", user, "participant2", other,
                          "username", user, "chatEntry", entry, "deviceProjectName", device));
}

struct talk talk_start(const struct host *host, const struct person *by, const char *user,
                       const char *other, const char *device)
{
    struct answer *answer =
        ck_status(talk_try(host, by, user, other, device, text("first entry of %s", user)), 201);
    const json_t *conversation = json_object_get(answer->json, "conversation");

    return (struct talk){json_integer_value(json_object_get(conversation, "id")),
                         text("%s", json_string_value(json_object_get(conversation, "headUuid")))};
}

struct answer *talk_post(const struct host *host, const struct person *by, const struct talk *talk,
                         const char *username, const char *entry)
{
    return http(host, "POST", text("/api/chat/conversations/%jd/messages", talk->id), by->token,
                json_pack("{ss ss}", "username", username, "chatEntry", entry));
}

struct answer *talk_read(const struct host *host, const struct person *by, const struct talk *talk,
                         const char *email)
{
    return http(host, "PATCH", text("/api/chat/conversations/%jd/read", talk->id), by->token,
                json_pack("{ss}", "email", email));
}

struct answer *talk_find(const struct host *host, const struct person *by, json_t *filters)
{
    return http(host, "POST", "/api/chat/conversations/find", by->token, filters);
}

struct answer *talk_of(const struct host *host, const struct person *by, const char *what,
                       const char *email, const char *query)
{
    return http(host, "GET", text("/api/chat/%s/%s%s", what, encoded(email), query), by->token,
                NULL);
}

int64_t talk_unread(const struct host *host, const struct person *by, const char *email)
{
    return answer_int(ck_status(talk_of(host, by, "unread-count", email, ""), 200), "count");
}

struct answer *talk_chain(const struct host *host, const struct person *by, const struct talk *talk,
                          const char *query)
{
    return http(host, "GET", text("/api/chat/chain/%s%s", talk->head, query), by->token, NULL);
}

size_t talk_length(const struct host *host, const struct person *by, const struct talk *talk)
{
    return json_array_size(ck_status(talk_chain(host, by, talk, ""), 200)->json);
}

void talk_retention(const struct host *host, const char *days)
{
    char *conf = file_text(host->conf);

    memcpy(strstr(conf, "retention_days: ") + strlen("retention_days: "), days, 2);
    file_write(host->conf, conf);
    host_says(host, 0, "reload");
}

const char *keys_of(const json_t *object)
{
    const char *found = "", *key;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        found = text("%s%s%s", found, *found ? " " : "", key);
    return found;
}

const char *next_page(const struct answer *answer)
{
    const char *link = answer_header(answer, "Link");
    const char *end = link ? strstr(link, ">; rel=\"next\"") : NULL;
    const char *after = link ? strstr(link, "after=") : NULL;

    ck_assert_msg(!after || !strstr(after + 1, "after="), "%s", link); /* of this page only */
    return end && *link == '<' ? text("%.*s", (int)(end - link - 1), link + 1) : NULL;
}

struct answer *page_after(const struct host *host, const struct person *by,
                          const struct answer *answer)
{
    const char *path = next_page(answer);

    return path ? ask(by, 200, NULL, "GET %s", path) : NULL;
}

struct pending_call {
    const struct host *host;
    struct call call;
    struct answer *answer;
    pthread_barrier_t *together; /* NULL: it does not wait for others */
    pthread_t thread;
    atomic_bool over;
};

static void *make_call(void *arg)
{
    struct pending_call *one = arg;

    if (one->together)
        pthread_barrier_wait(one->together);
    one->answer = http_send(one->host, &one->call);
    one->over = true;
    return NULL;
}

static struct pending_call *begin(const struct host *host, const struct call *call,
                                  pthread_barrier_t *together)
{
    struct pending_call *one = kept(calloc(1, sizeof *one));

    *one = (struct pending_call){.host = host, .call = *call, .together = together};
    ck_assert_int_eq(pthread_create(&one->thread, NULL, make_call, one), 0);
    return one;
}

struct pending_call *call_begin(const struct host *host, const struct call *call)
{
    return begin(host, call, NULL);
}

bool call_is_over(const struct pending_call *pending)
{
    return pending->over;
}

struct answer *call_end(struct pending_call *pending)
{
    pthread_join(pending->thread, NULL);
    return pending->answer;
}

void parallel(const struct host *host, const struct call *calls, struct answer **answers, int count)
{
    struct pending_call *pending[PARALLEL_MAX];
    pthread_barrier_t together;

    ck_assert_int_le(count, PARALLEL_MAX);
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, (unsigned)count), 0);
    for (int i = 0; i < count; i++)
        pending[i] = begin(host, &calls[i], &together);
    for (int i = 0; i < count; i++)
        answers[i] = call_end(pending[i]);
    pthread_barrier_destroy(&together);
}
