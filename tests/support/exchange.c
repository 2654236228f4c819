#include "exchange.h"

#include <fnmatch.h>
#include <string.h>

#include "secrets.h"

#define ABSENT "(absent)"

/* Leaves text that is not JSON as it is. */
static const char *quoted(const char *json)
{
    char *copy = json && strchr("{[", *json) && !strchr(json, '"') ? text("%s", json) : NULL;

    for (char *c = copy; c && *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy ? copy : json;
}

json_t *json_of(const char *json)
{
    json_error_t error;
    json_t *value = json_loads(quoted(json), JSON_DECODE_ANY, &error);

    ck_assert_msg(value != NULL, "%s in %s", error.text, json);
    return value;
}

const char *json_with(const char *base, const char *change)
{
    json_t *object = json_of(base), *changes = json_of(change), *value;
    const char *key;

    json_object_foreach(changes, key, value)
    {
        if (json_is_string(value) && !strcmp(json_string_value(value), ABSENT))
            json_object_del(object, key);
        else
            json_object_set(object, key, value);
    }
    char *result = kept(json_dumps(object, JSON_COMPACT));

    json_decref(object);
    json_decref(changes);
    return result;
}

static bool text_matches(const json_t *value, const char *pattern)
{
    const char *actual = json_string_value(value);

    if (!strcmp(pattern, "*"))
        return value && !json_is_null(value);
    if (!strcmp(pattern, ABSENT))
        return !value;
    return actual && (!strcmp(actual, pattern) ||
                      (strchr(pattern, '*') && !fnmatch(pattern, actual, FNM_NOESCAPE)));
}

static bool json_matches(const json_t *value, json_t *pattern)
{
    json_t *member;
    const char *key;
    size_t i;

    if (json_is_string(pattern))
        return text_matches(value, json_string_value(pattern));
    if (json_is_object(pattern)) {
        json_object_foreach(pattern, key, member)
        {
            if (!json_matches(json_object_get(value, key), member))
                return false;
        }
        return json_is_object(value);
    }
    if (!json_is_array(pattern))
        return value && json_equal(value, pattern);
    json_array_foreach(pattern, i, member)
    {
        if (!json_matches(json_array_get(value, i), member))
            return false;
    }
    return json_is_array(value) && json_array_size(value) == json_array_size(pattern);
}

void json_expect(const json_t *value, const char *expected, const char *file, int line)
{
    json_t *pattern = json_of(expected);
    char *actual = value ? kept(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)) : NULL;

    ck_assert_msg(json_matches(value, pattern), "%s:%d: %s instead of %s", file, line,
                  actual ? actual : "no JSON", expected);
    json_decref(pattern);
}

struct answer *exchange_one(const struct host *host, struct exchange row, const char *file,
                            int line)
{
    const char *path = strchr(row.request, ' ') + 1, *body = quoted(row.body);
    const char *headers[] = {row.header, NULL};
    const char *where = text("%s %s in %s", row.request, row.body ? row.body : "", file);
    json_t *sent = body ? json_loads(body, 0, NULL) : NULL;

    secrets_add_json(sent);
    json_decref(sent);
    struct answer *answer =
        http_send(host, &(struct call){
                            .method = text("%.*s", (int)(path - 1 - row.request), row.request),
                            .path = path,
                            .token = row.who ? row.who->token : NULL,
                            .body = body,
                            .type = row.type,
                            .headers = headers,
                        });
    bool is_pattern = row.expected && *row.expected && strchr("{[", *row.expected);

    answer_expect(answer, row.status, where, line);
    if (row.status >= 400)
        answer_expect_error(answer, row.status, row.expected && !is_pattern ? row.expected : "",
                            where, line);
    else if (row.expected && !is_pattern)
        ck_assert_msg(strstr(answer->body, row.expected) != NULL, "%s: %s not in %s", where,
                      row.expected, answer->body);
    if (is_pattern)
        json_expect(answer->json, row.expected, where, line);
    return answer;
}

void exchange_all(const struct host *host, const struct exchange *rows, size_t count,
                  const char *file, int line)
{
    for (size_t i = 0; i < count; i++)
        exchange_one(host, rows[i], file, line);
}
