/*
 * The option `filter`: a condition on the payload of an event, in the language of Hookdeck and
 * Outpost. It is compiled to a jsonpath predicate, which PostgreSQL evaluates when it stores the
 * deliveries of an event (publish/enqueue.c, sender/expand.c). So the filter in the database
 * decides, on every host and without a cache.
 *
 * The predicates use the lax mode of jsonpath, in which comparisons and filters unwrap arrays: a
 * value matches an array that contains it. type() does not unwrap. No predicate is ever unknown,
 * because exists(path ? (condition)) is false if the condition is unknown; so each can be negated.
 * If a member is missing, its path is empty, and only !exists(path) is true.
 */
#include <string.h>

#include "modules/common/csv.h"
#include "modules/webhook/api/api.h"

enum {
    FILTER_BYTES = 8192,
    FILTER_PREDICATE = 65536, /* bytes; PostgreSQL reads it for each event */
    FILTER_DEPTH = 10,
    FILTER_CONDITIONS = 100,
    FILTER_PATTERNS = 10 /* a search in a long text takes milliseconds */
};

struct filter {
    struct bb_request *rq;
    struct csv text; /* the predicate */
    size_t conditions, patterns;
};

/* A condition: its place in the filter, for errors, and the jsonpath of the value it is about. */
struct place {
    const char *name, *path;
    int depth;
};

#define FILTER_REFUSE(filter, name, ...)                                                           \
    bb_end((filter)->rq, bb_invalid((filter)->rq, name, __VA_ARGS__))

static void filter_add(struct filter *filter, json_t *condition, struct place place);

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

/* Appends texts; the last one is followed by NULL. */
static void filter_put(struct filter *filter, const char *text, ...)
{
    va_list more;

    va_start(more, text);
    for (; text; text = va_arg(more, const char *))
        csv_bytes(&filter->text, text, strlen(text));
    va_end(more);
}

static const char *filter_literal(const struct filter *filter, const json_t *value)
{
    return bb_json(filter->rq, value, NULL);
}

static const char *filter_quote(const struct filter *filter, const char *text)
{
    return filter_literal(filter, bb_json_hold(filter->rq, json_string(text)));
}

/* Returns the path of a member; a JSON string is also a name in jsonpath. */
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

/* Adds that the value equals `value`, also if both are objects or arrays. */
static void filter_add_equal(struct filter *filter, json_t *value, struct place place)
{
    const char *name, *path = place.path;
    json_t *member;

    filter_count(filter, place);
    if (json_is_array(value)) {
        filter_put(filter, "(", path, ".type() == \"array\" && ", path,
                   ".size() == ", bb_format(filter->rq, "%zu", json_array_size(value)), NULL);
        for (size_t i = 0; i < json_array_size(value); i++) {
            const char *at = bb_format(filter->rq, "%s[%zu]", path, i);

            filter_put(filter, " && ", NULL);
            filter_add_equal(filter, json_array_get(value, i), filter_item(filter, place, i, at));
        }
    } else if (json_is_object(value)) {
        filter_put(filter, "(", path, ".type() == \"object\" && !exists(", path,
                   ".keyvalue() ? (1 == 1", NULL);
        json_object_foreach(value, name, member)
        {
            filter_put(filter, " && @.key != ", filter_quote(filter, name), NULL);
        }
        filter_put(filter, "))", NULL);
        json_object_foreach(value, name, member)
        {
            const char *at = filter_member(filter, path, name);

            filter_put(filter, " && ", NULL);
            filter_add_equal(filter, member, filter_below(filter, place, name, at));
        }
    } else {
        filter_put(filter, "(", path, ".type() != \"array\" && exists(", path,
                   " ? (@ == ", filter_literal(filter, value), "))", NULL);
    }
    filter_put(filter, ")", NULL);
}

static void filter_equal(struct filter *filter, json_t *value, struct place place,
                         const char * not )
{
    filter_put(filter, "(exists(", place.path, ") && ", not, NULL);
    filter_add_equal(filter, value, place);
    filter_put(filter, ")", NULL);
}

static void filter_compare(struct filter *filter, json_t *value, struct place place,
                           const char *sign)
{
    if (!json_is_string(value) && !json_is_number(value))
        FILTER_REFUSE(filter, place.name, "must be a string or a number");
    filter_put(filter, "(", place.path, ".type() == \"",
               json_is_string(value) ? "string" : "number", "\" && exists(", place.path, " ? (@ ",
               sign, " ", filter_literal(filter, value), ")))", NULL);
}

/* Adds a regular expression for the text, which must be the end of the value. */
static void filter_put_end(struct filter *filter, const char *text)
{
    char *pattern = bb_alloc(filter->rq, 2 * strlen(text) + 2), *to = pattern;

    for (; *text; text++) {
        if ((unsigned char)*text < 0x80 && !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                                                   "TUVWXYZ0123456789_\n\r\t",
                                                   *text))
            *to++ = '\\';
        *to++ = *text;
    }
    *to++ = '$';
    *to = '\0';
    filter_put(filter, "@ like_regex ", filter_quote(filter, pattern), NULL);
}

static void filter_affix(struct filter *filter, json_t *value, struct place place, const char *end)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;

    if (!count)
        FILTER_REFUSE(filter, place.name, "must not be empty");
    filter_put(filter, "(", place.path, ".type() == \"string\" && exists(", place.path, " ? (",
               NULL);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;

        filter_count(filter, place);
        filter_put(filter, i ? " || " : "", NULL);
        if (!json_is_string(item))
            FILTER_REFUSE(filter, place.name, "must be a string, or a list of strings");
        if (*end) {
            filter_count_pattern(filter);
            filter_put_end(filter, json_string_value(item));
        } else {
            filter_put(filter, "@ starts with ", filter_literal(filter, item), NULL);
        }
    }
    filter_put(filter, ")))", NULL);
}

/*
 * $in and $nin. With a list, the value must be one of its items. Otherwise the value is an array
 * that contains `value`, or a text that contains it.
 */
static void filter_in(struct filter *filter, json_t *value, struct place place, const char * not )
{
    const char *path = place.path, *literal = filter_literal(filter, value);

    if (json_is_object(value))
        FILTER_REFUSE(filter, place.name, "must not be an object");
    if (json_is_array(value)) {
        filter_put(filter, "(", path, ".type() != \"array\" && ", path, ".type() != \"object\" && ",
                   not, "exists(", path, " ? (1 == 0", NULL);
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *item = json_array_get(value, i);

            filter_count(filter, place);
            if (json_is_object(item) || json_is_array(item))
                FILTER_REFUSE(filter, place.name, "must not contain objects or arrays");
            filter_put(filter, " || @ == ", filter_literal(filter, item), NULL);
        }
        filter_put(filter, ")))", NULL);
        return;
    }
    filter_put(filter, "((", path, ".type() == \"array\" && ", not, "exists(", path,
               " ? (@ == ", literal, ")))", NULL);
    if (json_is_string(value)) {
        filter_count_pattern(filter);
        filter_put(filter, " || (", path, ".type() == \"string\" && ", not, "exists(", path,
                   " ? (@ like_regex ", literal, " flag \"q\")))", NULL);
    }
    filter_put(filter, ")", NULL);
}

static void filter_exist(struct filter *filter, json_t *value, struct place place,
                         const char *unused)
{
    (void)unused;
    if (!json_is_boolean(value))
        FILTER_REFUSE(filter, place.name, "must be true or false");
    filter_put(filter, json_is_true(value) ? "" : "!", "exists(", place.path, ")", NULL);
}

static void filter_join(struct filter *filter, json_t *value, struct place place, const char *sign)
{
    if (!json_is_array(value) || !json_array_size(value))
        FILTER_REFUSE(filter, place.name, "must be a list of conditions");
    for (size_t i = 0; i < json_array_size(value); i++) {
        filter_put(filter, i ? sign : "(", NULL);
        filter_add(filter, json_array_get(value, i), filter_item(filter, place, i, place.path));
    }
    filter_put(filter, ")", NULL);
}

static void filter_not(struct filter *filter, json_t *value, struct place place, const char *unused)
{
    (void)unused;
    filter_put(filter, "!(", NULL);
    filter_add(filter, value, place);
    filter_put(filter, ")", NULL);
}

static const struct operator_row {
    const char *name;
    void (*add)(struct filter *filter, json_t *value, struct place place, const char *arg);
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
    {"$and", filter_join, " && "},
    {"$or", filter_join, " || "},
};

/* ---- conditions ---- */

static void filter_add_operator(struct filter *filter, const char *name, json_t *value,
                                struct place place)
{
    place = filter_below(filter, place, name, place.path);
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (!strcmp(name, operators[i].name)) {
            operators[i].add(filter, value, place, operators[i].arg);
            return;
        }
    FILTER_REFUSE(filter, place.name, "is not an operator");
}

/* Adds the operators of an object, and then one predicate for its other members. */
static void filter_add_object(struct filter *filter, json_t *object, struct place place)
{
    const char *name, *between = "(";
    json_t *value;
    size_t members = 0;

    json_object_foreach(object, name, value)
    {
        members += name[0] != '$';
        if (name[0] != '$')
            continue;
        filter_put(filter, between, NULL);
        between = " && ";
        filter_add_operator(filter, name, value, place);
    }
    if (members || *between == '(') {
        filter_put(filter, between, "exists(", place.path, "[*] ? (@.type() == \"object\"", NULL);
        json_object_foreach(object, name, value)
        {
            if (name[0] == '$')
                continue;
            filter_put(filter, " && ", NULL);
            filter_add(filter, value,
                       filter_below(filter, place, name, filter_member(filter, "@", name)));
        }
        filter_put(filter, "))", NULL);
    }
    filter_put(filter, ")", NULL);
}

/* Adds the predicate of a condition: a value, a list of items to be contained, or an object. */
static void filter_add(struct filter *filter, json_t *condition, struct place place)
{
    filter_count(filter, place);
    if (json_is_object(condition)) {
        filter_add_object(filter, condition, place);
        return;
    }
    if (!json_is_array(condition)) {
        filter_put(filter, "exists(", place.path, " ? (@ == ", filter_literal(filter, condition),
                   "))", NULL);
        return;
    }
    filter_put(filter, "(", place.path, ".type() == \"array\"", NULL);
    for (size_t i = 0; i < json_array_size(condition); i++) {
        json_t *item = json_array_get(condition, i);
        struct place below = filter_item(filter, place, i, "@");

        if (json_is_array(item))
            FILTER_REFUSE(filter, below.name, "must not be an array in an array");
        filter_put(filter, " && exists(", place.path, "[*] ? (", NULL);
        filter_add(filter, item, below);
        filter_put(filter, "))", NULL);
    }
    filter_put(filter, ")", NULL);
}

static void filter_drop(void *filter)
{
    csv_drop(&((struct filter *)filter)->text);
}

/* Returns the predicate; NULL for an empty filter. */
static const char *filter_compile(struct bb_request *rq, json_t *value)
{
    struct filter *filter = bb_alloc(rq, sizeof(*filter));
    size_t bytes;

    if (!json_object_size(value))
        return NULL;
    filter->rq = rq;
    bb_defer(rq, filter_drop, filter);
    bb_json(rq, value, &bytes);
    if (bytes > FILTER_BYTES)
        FILTER_REFUSE(filter, "filter", "must have at most %d bytes", FILTER_BYTES);
    filter_add(filter, value, (struct place){"filter", "$", 0});
    csv_bytes(&filter->text, "", 1);
    if (filter->text.length > FILTER_PREDICATE)
        FILTER_REFUSE(filter, "filter",
                      "must have shorter names, or fewer values for $eq and $neq");
    if (filter->text.failed)
        bb_end(rq, bb_no_memory(rq));
    return filter->text.bytes;
}

void filter_take(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns)
{
    const char *path = filter_compile(rq, value);

    (void)webhook;
    option_set(rq, columns, "filter", path ? json_string(bb_json(rq, value, NULL)) : json_null());
    option_set(rq, columns, "filter_path", path ? json_string(path) : json_null());
}

/* ---- POST /api/chat/webhooks/:id/filter/test ---- */

/*
 * Evaluates a filter for the latest events that the owner's webhooks have deliveries of. The
 * parameters of WEBHOOK_MINE come first; $4 is the predicate, null: everything matches. Each of up
 * to 100 webhooks is searched, because the latest events may be deliveries of any one.
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
    " coalesce(json_agg(json_build_object('eventId', t.event_id, 'event', t.event, 'createdAt',"
    " " BB_SQL_TIME("t.created_at") ", 'matches', t.matches) ORDER BY t.id DESC)"
                                    " FILTER (WHERE t.id IS NOT NULL), '[]')) FROM owner LEFT JOIN "
                                    "tested t ON true"
                                    " GROUP BY owner.id",
    BB_SQL_LONG,
};

int webhook_filter_test(struct bb_request *rq)
{
    const char *path = filter_compile(rq, json_object_get(bb_body(rq), "filter"));
    const struct bb_rows *rows =
        webhook_rows(rq, &test, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(path)), "Webhook");

    return bb_reply(rq, 200, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));
}
