/*
 * The option `filter`: a condition on the payload of an event, in the language of the webhook
 * services Hookdeck and Outpost. It is compiled to a jsonpath predicate, which PostgreSQL evaluates
 * when it stores the deliveries of an event (publish/enqueue.c, sender/expand.c). So the filter in
 * the database decides, on every host and without a cache.
 *
 * The predicates use the lax mode of jsonpath, in which comparisons and filters unwrap arrays: a
 * value matches an array that contains it. type() does not unwrap. No predicate is ever unknown,
 * because exists(path ? (condition)) is false if the condition is unknown. So each predicate can be
 * negated. If a member is missing, its path is empty, and only !exists(path) is true.
 */
#include <string.h>

#include "modules/webhook/api/api.h"

enum {
    FILTER_BYTES = 8192,
    FILTER_PREDICATE = 65536, /* bytes; PostgreSQL reads the predicate for each event */
    FILTER_DEPTH = 10,
    FILTER_CONDITIONS = 100,
    FILTER_PATTERNS = 10 /* a search in a long text takes milliseconds */
};

struct filter {
    struct bb_request *rq;
    size_t conditions, patterns;
};

/* Where a condition is in the filter (for errors), and the jsonpath of the value it checks. */
struct place {
    const char *name, *path;
    int depth;
};

#define FILTER_REFUSE(filter, name, ...)                                                           \
    bb_end((filter)->rq, bb_invalid((filter)->rq, name, __VA_ARGS__))

/* Functions with JSON and a `place` return a jsonpath predicate, valid as long as the request. */
static const char *filter_condition(struct filter *filter, json_t *condition, struct place place);

static struct place filter_below(const struct filter *filter, struct place place, const char *name,
                                 const char *path)
{
    return (struct place){bb_format(filter->rq, "%s.%s", place.name, name), path, place.depth + 1};
}

static struct place filter_item(const struct filter *filter, struct place place, size_t i,
                                const char *path)
{
    return (struct place){bb_format(filter->rq, "%s[%zu]", place.name, i), path, place.depth + 1};
}

/* Returns two parts of the predicate, joined by the text `between`. */
static const char *filter_join(const struct filter *filter, const char *first, const char *between,
                               const char *second)
{
    if (strlen(first) + strlen(second) >= FILTER_PREDICATE)
        FILTER_REFUSE(filter, "filter",
                      "must have shorter names, or fewer values for $eq and $neq");
    return bb_format(filter->rq, "%s%s%s", first, between, second);
}

static const char *filter_quote(const struct filter *filter, const char *text)
{
    return bb_json(filter->rq, bb_json_hold(filter->rq, json_string(text)), NULL);
}

/* Returns the path of a member. jsonpath accepts its name as a JSON string. */
static const char *filter_member(const struct filter *filter, const char *path, const char *name)
{
    return bb_format(filter->rq, "%s.%s", path, filter_quote(filter, name));
}

static void filter_count(struct filter *filter, struct place place)
{
    if (place.depth > FILTER_DEPTH)
        FILTER_REFUSE(filter, place.name, "must be nested at most %d times", FILTER_DEPTH);
    if (++filter->conditions > FILTER_CONDITIONS)
        FILTER_REFUSE(filter, "filter", "must have at most %d conditions", FILTER_CONDITIONS);
}

static void filter_count_pattern(struct filter *filter)
{
    if (++filter->patterns > FILTER_PATTERNS)
        FILTER_REFUSE(filter, "filter", "must have at most %d texts to search for",
                      FILTER_PATTERNS);
}

/* ---- operators ---- */

/* Returns the predicate that the JSON at `place` equals `value`, which may be of any type. */
static const char *filter_same(struct filter *filter, json_t *value, struct place place)
{
    struct bb_request *rq = filter->rq;
    const char *name, *path = place.path, *text, *keys = "";
    json_t *member;

    filter_count(filter, place);
    if (json_is_array(value)) {
        text = bb_format(rq, "(%s.type() == \"array\" && %s.size() == %zu", path, path,
                         json_array_size(value));
        for (size_t i = 0; i < json_array_size(value); i++) {
            const char *at = bb_format(rq, "%s[%zu]", path, i);

            member = json_array_get(value, i);
            text = filter_join(filter, text, " && ",
                               filter_same(filter, member, filter_item(filter, place, i, at)));
        }
        return filter_join(filter, text, "", ")");
    }
    if (!json_is_object(value))
        return bb_format(rq, "(%s.type() != \"array\" && exists(%s ? (@ == %s)))", path, path,
                         bb_json(rq, value, NULL));
    json_object_foreach (value, name, member)
        keys = filter_join(filter, keys, " && @.key != ", filter_quote(filter, name));
    text = bb_format(rq, "(%s.type() == \"object\" && !exists(%s.keyvalue() ? (1 == 1%s))", path,
                     path, keys);
    json_object_foreach (value, name, member) {
        const char *at = filter_member(filter, path, name);

        text = filter_join(filter, text, " && ",
                           filter_same(filter, member, filter_below(filter, place, name, at)));
    }
    return filter_join(filter, text, "", ")");
}

static const char *filter_equal(struct filter *filter, json_t *value, struct place place,
                                const char * not )
{
    return bb_format(filter->rq, "(exists(%s) && %s%s)", place.path, not,
                     filter_same(filter, value, place));
}

static const char *filter_compare(struct filter *filter, json_t *value, struct place place,
                                  const char *sign)
{
    if (!json_is_string(value) && !json_is_number(value))
        FILTER_REFUSE(filter, place.name, "must be a string or a number");
    return bb_format(filter->rq, "(%s.type() == \"%s\" && exists(%s ? (@ %s %s)))", place.path,
                     json_is_string(value) ? "string" : "number", place.path, sign,
                     bb_json(filter->rq, value, NULL));
}

/* Returns a regular expression that matches values ending with the text. */
static const char *filter_end(const struct filter *filter, const char *text)
{
    char *pattern = bb_alloc(filter->rq, 2 * strlen(text) + 2), *to = pattern;

    for (; *text; text++) {
        if ((unsigned char)*text < 0x80 && !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                                                   "TUVWXYZ0123456789_\n\r\t",
                                                   *text))
            *to++ = '\\';
        *to++ = *text;
    }
    *to = '$';
    return filter_quote(filter, pattern);
}

static const char *filter_affix(struct filter *filter, json_t *value, struct place place,
                                const char *end)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    const char *text = "";

    if (!count)
        FILTER_REFUSE(filter, place.name, "must have at least 1 item");
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;

        filter_count(filter, place);
        if (!json_is_string(item))
            FILTER_REFUSE(filter, place.name, "must be a string, or a list of strings");
        if (*end)
            filter_count_pattern(filter);
        text = filter_join(
            filter, text, i ? " || " : "",
            *end ? bb_format(filter->rq, "@ like_regex %s",
                             filter_end(filter, json_string_value(item)))
                 : bb_format(filter->rq, "@ starts with %s", bb_json(filter->rq, item, NULL)));
    }
    return bb_format(filter->rq, "(%s.type() == \"string\" && exists(%s ? (%s)))", place.path,
                     place.path, text);
}

/*
 * $in: if the operand is a list, the payload's value must be one of its items; otherwise the value
 * must be an array or a text that contains the operand. $nin (`not` is set): the opposite of $in.
 */
static const char *filter_in(struct filter *filter, json_t *value, struct place place,
                             const char * not )
{
    struct bb_request *rq = filter->rq;
    const char *path = place.path, *literal = bb_json(rq, value, NULL), *text = "";

    if (json_is_object(value))
        FILTER_REFUSE(filter, place.name, "must not contain objects or arrays");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);

        filter_count(filter, place);
        if (json_is_object(item) || json_is_array(item))
            FILTER_REFUSE(filter, place.name, "must not contain objects or arrays");
        text = filter_join(filter, text, " || @ == ", bb_json(rq, item, NULL));
    }
    if (json_is_array(value))
        return bb_format(rq,
                         "(%s.type() != \"array\" && %s.type() != \"object\" && %sexists(%s ? "
                         "(1 == 0%s)))",
                         path, path, not, path, text);
    if (json_is_string(value)) {
        filter_count_pattern(filter);
        text = bb_format(rq,
                         " || (%s.type() == \"string\" && %sexists(%s ? (@ like_regex %s flag "
                         "\"q\")))",
                         path, not, path, literal);
    }
    return bb_format(rq, "((%s.type() == \"array\" && %sexists(%s ? (@ == %s)))%s)", path, not,
                     path, literal, text);
}

static const char *filter_exist(struct filter *filter, json_t *value, struct place place,
                                const char *unused)
{
    (void)unused;
    if (!json_is_boolean(value))
        FILTER_REFUSE(filter, place.name, "must be true or false");
    return bb_format(filter->rq, "%sexists(%s)", json_is_true(value) ? "" : "!", place.path);
}

static const char *filter_all(struct filter *filter, json_t *value, struct place place,
                              const char *sign)
{
    const char *text = "";

    if (!json_is_array(value) || !json_array_size(value))
        FILTER_REFUSE(filter, place.name,
                      json_is_array(value) ? "must have at least 1 item" : "must be a list");
    for (size_t i = 0; i < json_array_size(value); i++)
        text = filter_join(filter, text, i ? sign : "(",
                           filter_condition(filter, json_array_get(value, i),
                                            filter_item(filter, place, i, place.path)));
    return filter_join(filter, text, "", ")");
}

static const char *filter_not(struct filter *filter, json_t *value, struct place place,
                              const char *unused)
{
    (void)unused;
    return bb_format(filter->rq, "!(%s)", filter_condition(filter, value, place));
}

static const struct operator_row {
    const char *name;
    const char *(*predicate)(struct filter *filter, json_t *value, struct place place,
                             const char *arg);
    const char *arg;
} operators[] = {
    {"$eq", filter_equal, ""},
    {"$neq", filter_equal, "!"},
    {"$gt", filter_compare, ">"},
    {"$gte", filter_compare, ">="},
    {"$lt", filter_compare, "<"},
    {"$lte", filter_compare, "<="},
    {"$in", filter_in, ""},
    {"$nin", filter_in, "!"},
    {"$startsWith", filter_affix, ""},
    {"$endsWith", filter_affix, "$"},
    {"$exist", filter_exist, NULL},
    {"$not", filter_not, NULL},
    {"$and", filter_all, " && "},
    {"$or", filter_all, " || "},
};
enum { OPERATORS = sizeof(operators) / sizeof(operators[0]) };

/* ---- conditions ---- */

/* Returns the predicate of an object: of its operators and of its other members. */
static const char *filter_object(struct filter *filter, json_t *object, struct place place)
{
    const char *name, *text = "", *members = "";
    json_t *value;

    json_object_foreach (object, name, value) {
        const struct operator_row *row = operators, *end = operators + OPERATORS;
        struct place below = filter_below(filter, place, name, place.path);

        if (name[0] != '$') {
            below.path = filter_member(filter, "@", name);
            members = filter_join(filter, members, " && ", filter_condition(filter, value, below));
            continue;
        }
        while (row < end && strcmp(name, row->name) != 0)
            row++;
        if (row == end)
            FILTER_REFUSE(filter, below.name, "is not an operator");
        text = filter_join(filter, text, *text ? " && " : "",
                           row->predicate(filter, value, below, row->arg));
    }
    if (*members || !*text)
        text = filter_join(filter, text, *text ? " && " : "",
                           bb_format(filter->rq, "exists(%s[*] ? (@.type() == \"object\"%s))",
                                     place.path, members));
    return bb_format(filter->rq, "(%s)", text);
}

/* Returns the predicate of a condition: a value, an object, or a list of required items. */
static const char *filter_condition(struct filter *filter, json_t *condition, struct place place)
{
    struct bb_request *rq = filter->rq;

    filter_count(filter, place);
    if (json_is_object(condition))
        return filter_object(filter, condition, place);
    if (!json_is_array(condition))
        return bb_format(rq, "exists(%s ? (@ == %s))", place.path, bb_json(rq, condition, NULL));
    const char *text = bb_format(rq, "(%s.type() == \"array\"", place.path);

    for (size_t i = 0; i < json_array_size(condition); i++) {
        json_t *item = json_array_get(condition, i);
        struct place below = filter_item(filter, place, i, "@");

        if (json_is_array(item))
            FILTER_REFUSE(filter, below.name, "must not be an array in an array");
        text = filter_join(filter, text, " && ",
                           bb_format(rq, "exists(%s[*] ? (%s))", place.path,
                                     filter_condition(filter, item, below)));
    }
    return filter_join(filter, text, "", ")");
}

/* Returns the predicate; NULL for an empty filter. */
static const char *filter_compile(struct bb_request *rq, json_t *value)
{
    struct filter filter = {.rq = rq};
    size_t bytes;

    if (!json_object_size(value))
        return NULL;
    bb_json(rq, value, &bytes);
    if (bytes > FILTER_BYTES)
        FILTER_REFUSE(&filter, "filter", "must be at most %d bytes", FILTER_BYTES);
    return filter_join(&filter, filter_condition(&filter, value, (struct place){"filter", "$", 0}),
                       "", "");
}

void filter_take(struct bb_request *rq, json_t *value, json_t *columns)
{
    const char *path = filter_compile(rq, value);

    bb_set(rq, columns, "filter", path ? json_string(bb_json(rq, value, NULL)) : json_null());
    bb_set(rq, columns, "filter_path", path ? json_string(path) : json_null());
}

/* ---- POST /api/chat/webhooks/:id/filter/test ---- */

/* clang-format off */

/*
 * Evaluates a filter for the events of the latest deliveries of the owner's webhooks. The
 * parameters of WEBHOOK_MINE come first; $4 is the predicate, null: everything matches. Up to 100
 * webhooks are searched, because each of them may have some of the latest events.
 */
static const struct bb_sql test = {
    "WITH owner AS MATERIALIZED (SELECT h.id, h.account FROM webhook_hook h WHERE " WEBHOOK_MINE
    "), latest AS (SELECT DISTINCT ON (d.event_id) d.* FROM (SELECT h.id FROM owner JOIN"
    " webhook_hook h ON h.account = owner.account ORDER BY (h.id = owner.id) DESC, h.id DESC"
    " LIMIT 100) h CROSS JOIN LATERAL (SELECT d.id, d.event_id, d.event, d.created_at, d.body,"
    " d.body_id FROM webhook_delivery d WHERE d.webhook = h.id AND d.event <> '" WEBHOOK_PING
    "' ORDER BY d.id DESC LIMIT 100) d), tested AS (SELECT d.*, ($4::jsonpath IS NULL"
    " OR coalesce(webhook_payload(coalesce(d.body, b.body)) @@ $4::jsonpath, true)) AS matches"
    " FROM (SELECT * FROM latest ORDER BY id DESC LIMIT 100) d"
    " LEFT JOIN webhook_body b ON b.id = d.body_id)"
    " SELECT json_build_object('matched', count(*) FILTER (WHERE t.matches), 'events',"
    " coalesce(json_agg(json_build_object('eventId', t.event_id, 'event', t.event, 'createdAt', "
    BB_SQL_TIME("t.created_at") ", 'matches', t.matches) ORDER BY t.id DESC)"
    " FILTER (WHERE t.id IS NOT NULL), '[]')) FROM owner LEFT JOIN tested t ON true"
    " GROUP BY owner.id",
    BB_SQL_LONG,
};

/* clang-format on */

int webhook_filter_test(struct bb_request *rq)
{
    const char *path = filter_compile(rq, json_object_get(bb_body(rq), "filter"));
    const struct bb_rows *rows =
        bb_find_or_end(rq, &test, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(path)), "Webhook");

    return bb_reply(rq, 200, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));
}
