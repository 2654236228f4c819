#include "exchange.h"

#include <stdarg.h>

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

    json_object_foreach (changes, key, value) {
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

bool glob_matches(const char *actual, const char *pattern)
{
    for (; *pattern != '*'; actual++, pattern++) {
        if (*actual != *pattern)
            return false;
        if (!*actual)
            return true;
    }
    for (pattern++; !glob_matches(actual, pattern); actual++) {
        if (!*actual)
            return false;
    }
    return true;
}

static bool text_matches(const json_t *value, const char *pattern)
{
    const char *actual = json_string_value(value);

    if (!strcmp(pattern, "*"))
        return value && !json_is_null(value);
    if (!strcmp(pattern, ABSENT))
        return !value;
    return actual && glob_matches(actual, pattern);
}

static bool json_matches(const json_t *value, json_t *pattern)
{
    json_t *member;
    const char *key;
    size_t i;

    if (json_is_string(pattern))
        return text_matches(value, json_string_value(pattern));
    if (json_is_object(pattern)) {
        json_object_foreach (pattern, key, member) {
            if (!json_matches(json_object_get(value, key), member))
                return false;
        }
        return json_is_object(value);
    }
    if (!json_is_array(pattern))
        return value && json_equal(value, pattern);
    json_array_foreach (pattern, i, member) {
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

static struct call call_from(const struct person *who, const char *request)
{
    const char *path = strchr(request, ' ') + 1, *end = strchrnul(path, ' ');
    const char *body = *end ? quoted(end + 1) : NULL;
    json_t *sent = body ? json_loads(body, 0, NULL) : NULL;

    secrets_add_json(sent);
    json_decref(sent);
    return (struct call){.method = text("%.*s", (int)(path - 1 - request), request),
                         .path = text("%.*s", (int)(end - path), path),
                         .token = who ? who->token : NULL,
                         .body = body};
}

struct answer *exchange_one(const struct host *host, const struct exchange *row, const char *file,
                            int line)
{
    const char *headers[] = {row->header, NULL}, *expected = row->expected;
    const char *where = text("%s in %s", row->request, file);
    bool is_pattern = expected && *expected && strchr("{[", *expected);
    struct call call = call_from(row->who, row->request);

    call.type = row->type;
    call.headers = headers;
    struct answer *answer = http_send(host, &call);

    answer_expect(answer, row->status, where, line);
    if (row->status >= 400)
        answer_expect_error(answer, row->status, expected && !is_pattern ? expected : "", where,
                            line);
    else if (expected && !is_pattern)
        ck_assert_msg(strstr(answer->body, expected) != NULL, "%s:%d: %s not in %s", where, line,
                      expected, answer->body);
    if (is_pattern)
        json_expect(answer->json, expected, where, line);
    return answer;
}

/* Apostrophes of the format are quotation marks; apostrophes of arguments stay. */
static const char *request_of(const char *format, va_list arguments)
{
    const char *path = strchr(format, ' '), *body = path ? strchr(path + 1, ' ') : NULL;

    if (body)
        format = text("%.*s %s", (int)(body - format), format, quoted(body + 1));
    return text_of(format, arguments);
}

struct call call_by(const struct person *who, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const char *request = request_of(format, arguments);

    va_end(arguments);
    return call_from(who, request);
}

struct answer *ask_of(const char *file, int line, const struct host *host, const struct person *who,
                      long status, const char *expected, const char *format, ...)
{
    struct exchange row = {.who = who, .status = status, .expected = expected};
    va_list arguments;

    va_start(arguments, format);
    row.request = request_of(format, arguments);
    va_end(arguments);
    return exchange_one(host, &row, file, line);
}

void exchange_all(const struct host *host, const struct exchange *rows, size_t count,
                  const char *file, int line)
{
    for (size_t i = 0; i < count; i++)
        exchange_one(host, &rows[i], file, line);
}

const struct person *bearer(const char *token)
{
    struct person *person = kept(calloc(1, sizeof *person));

    person->token = text("%s", token);
    return person;
}
