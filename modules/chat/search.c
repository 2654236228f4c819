/*
 * GET /api/chat/search: messages that contain words, the newest first
 *
 * A message matches if each word of the search begins a word of the message, ignoring case. Words
 * consist of letters and digits. In scripts that are written without spaces, a word's beginning
 * cannot be found, so their characters match anywhere.
 *
 * There is no index on the texts, because every post would have to update it, and because a search
 * in it would read the matches of all organizations first. Instead, a statement reads the messages
 * of the conversations that the caller sees, in the order of their latest activity, until it has
 * read SCAN messages. The newest matches in them come first. When all these matches are returned,
 * the next page reads the following conversations. So the cost of a page has a limit, and a caller
 * with up to SCAN messages gets all matches in the order of their times.
 *
 * A cursor is "<last activity>-<id>-<time>-<conversation>-<place>": the conversation after which
 * the page begins to read, and the message after which its matches begin; 0: at the first one.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "modules/chat/list.h"

#define SCAN "20000"       /* limit of the messages that a page reads, also in one conversation */
#define CONVERSATIONS 5000 /* maximum conversations that a page reads */
#define TEXT "2000"        /* characters of a message that are searched */
#define EXCERPT "240"      /* characters of a message in the response */
#define BEFORE_MATCH "60"  /* characters of the excerpt before the match */
#define UNSPACED "3584"    /* U+0E00 (Thai): the scripts without spaces come after it */
enum { WORDS = 30 };

// clang-format off
/*
 * $11 the words, separated by spaces, $12 to $14 the previous page's last message, $15 maximum
 * messages. LIKE is much faster than the regular expression, so it comes first. Words have no ASCII
 * characters except letters and digits, so none has a special meaning in a pattern. OFFSET 0 makes
 * PostgreSQL read the messages by their conversations. The last column is the conversation after
 * which the next page's conversations begin; null if there are none.
 */
#define FOUND(source)                                                                              \
    "WITH s AS MATERIALIZED (SELECT c.*, sum(c.entries) OVER (ORDER BY c.last DESC, c.id DESC)"    \
    " - c.entries AS newer FROM (SELECT c.id, c.entries, " LAST_AT " AS last FROM " source         \
    LATEST_FIRST ") c), w AS (SELECT array_agg('%' || word || '%') AS parts, array_agg(CASE"       \
    " WHEN ascii(word) < " UNSPACED " THEN '(^|[^[:alnum:]])' ELSE '' END || word) AS begins"      \
    " FROM unnest(string_to_array(lower($11::text), ' ')) AS words (word)),"                       \
    " f AS (SELECT e.*, w.begins FROM w CROSS JOIN s CROSS JOIN LATERAL"                           \
    " (SELECT * FROM chat_entry e WHERE e.conversation_id = s.id AND e.seq > s.entries - " SCAN    \
    " AND (e.created_at, e.conversation_id, e.seq) < (" MOMENT("$12") ", $13::bigint, $14::bigint)" \
    " AND lower(left(e.chat_entry, " TEXT ")) LIKE ALL (w.parts)"                                  \
    " AND lower(left(e.chat_entry, " TEXT ")) ~ ALL (w.begins) OFFSET 0) e WHERE s.newer < " SCAN  \
    " ORDER BY e.created_at DESC, e.conversation_id DESC, e.seq DESC LIMIT $15::bigint)"           \
    " SELECT f.uuid, f.conversation_id, f.seq, f.username, CASE WHEN x.first > 0 THEN '…' ELSE ''" \
    " END || substr(x.text, x.first + 1, " EXCERPT ") || CASE WHEN"                                \
    " length(x.text) > x.first + " EXCERPT " THEN '…' ELSE '' END, " BB_SQL_MS("f.created_at")     \
    ", c.participant1, c.participant2, c.device_project_name, c.organisation, n1.name, n2.name, "  \
    MICROSECONDS("f.created_at") " || '-' || f.conversation_id || '-' || f.seq, n.next"            \
    " FROM (SELECT (SELECT last || '-' || id FROM s WHERE newer < " SCAN                           \
    " AND (SELECT max(newer) >= " SCAN " OR count(*) = $7::bigint FROM s)"                         \
    " ORDER BY last, id LIMIT 1) AS next) n LEFT JOIN f ON true"                                   \
    " LEFT JOIN chat_conversation c ON c.id = f.conversation_id" JOIN_NAME("1") JOIN_NAME("2")     \
    " LEFT JOIN LATERAL (SELECT left(f.chat_entry, " TEXT " + " EXCERPT ") AS text,"               \
    " greatest(regexp_instr(lower(left(f.chat_entry, " TEXT ")), f.begins[1]) - " BEFORE_MATCH     \
    ", 0) AS first) x ON true ORDER BY f.created_at DESC, f.conversation_id DESC, f.seq DESC"

static const struct bb_sql found[] = {
    [CHAT_ONE] = {FOUND(SOURCE_ONE), BB_SQL_LIST},
    [CHAT_MINE] = {FOUND(SOURCE_MINE), BB_SQL_LIST},
    [CHAT_EVERY] = {FOUND(SOURCE_EVERY), BB_SQL_LIST},
    [CHAT_THEIRS] = {FOUND(SOURCE_THEIRS), BB_SQL_LIST},
};
// clang-format on

/*
 * Returns the words of the search, separated by single spaces; "" if there are none. All ASCII
 * characters except letters and digits separate words.
 */
static const char *search_words(struct bb_request *rq)
{
    char *words = bb_format(rq, "%s", bb_arg(rq, "q")), *end = words;
    int count = 1;

    for (const char *at = words; *at; at++)
        if ((unsigned char)*at >= 0x80 || isalnum((unsigned char)*at))
            *end++ = *at;
        else if (end > words && end[-1] != ' ')
            *end++ = ' ';
    if (end > words && end[-1] == ' ')
        end--;
    *end = '\0';
    for (const char *at = words; *at; at++)
        count += *at == ' ';
    if (count > WORDS)
        bb_end(rq, bb_invalid(rq, "q", "must have at most %d words", WORDS));
    return words;
}

/* Times are in microseconds. Numbers that the client has not sent are 0. */
struct cursor {
    int64_t last, id;                  /* the conversation after which the page begins to read */
    int64_t time, conversation, place; /* the message after which its matches begin */
};

static struct cursor search_cursor(struct bb_request *rq)
{
    static const int64_t end = INT64_C(253402300800000000); /* the end of the year 9999 */
    const char *after = bb_arg(rq, "after");
    struct cursor at = {0};
    int length = 0;

    if (after &&
        (sscanf(after, "%18" SCNd64 "-%18" SCNd64 "-%18" SCNd64 "-%18" SCNd64 "-%18" SCNd64 "%n",
                &at.last, &at.id, &at.time, &at.conversation, &at.place, &length) != 5 ||
         after[length] || at.last < 0 || at.last >= end || at.time < 0 || at.time >= end))
        bb_end(rq, bb_invalid(rq, "after", "must be a cursor from a Link header"));
    return at;
}

int chat_search(struct bb_request *rq)
{
    enum { LIMIT = 50, KEY = CHAT_FOUND, NEXT };
    struct chat_scope scope = chat_scope(rq);
    const char *words = search_words(rq), *next = NULL;
    struct cursor at = search_cursor(rq);
    int64_t limit = bb_arg_int(rq, "limit", LIMIT);
    const char *conversation = bb_arg(rq, "conversationId");

    if (!*words)
        return bb_reply(rq, 200, json_array());
    const struct bb_rows *rows = bb_query_or_end(
        rq, &found[chat_source(rq, &scope, conversation != NULL)],
        BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(conversation), at.last ? bb_i(at.last) : bb_null(),
                bb_i(at.last ? at.id : INT64_MAX), bb_i(CONVERSATIONS),
                bb_t(bb_arg(rq, "organizationId")), bb_null(), bb_null(), bb_t(words),
                at.time ? bb_i(at.time) : bb_null(), bb_i(at.conversation), bb_i(at.place),
                bb_i(limit + 1)));
    size_t count = bb_cell(rq, rows, 0, 0) ? bb_count(rq, rows) : 0;

    if (count > (size_t)limit) {
        count = (size_t)limit;
        next = bb_format(rq, "%" PRId64 "-%" PRId64 "-%s", at.last, at.id,
                         bb_cell(rq, rows, count - 1, KEY));
    } else if (bb_cell(rq, rows, 0, NEXT)) {
        next = bb_format(rq, "%s-0-0-0", bb_cell(rq, rows, 0, NEXT));
    }
    if (next && bb_reply_next(rq, next) < 0)
        return bb_failed(rq);
    return bb_reply(rq, 200, bb_rows_fields(rq, rows, count, 0, chat_found_fields, CHAT_FOUND));
}
