/*
 * POST /api/chat/conversations/find
 *
 * Returns the newest matching conversation that the caller may see, or null.
 *
 * The client sends up to two e-mails, in any order, and a name. PostgreSQL would read the whole
 * table for conditions with OR, so each set of filters has its own statement, a UNION of index
 * scans. If callers see only their own conversations, their e-mail becomes a filter, too. Without
 * OFFSET 0 the planner might read conversations from the newest on until it finds the name, which
 * may take long.
 */
#include <string.h>

#include "modules/chat/chat.h"

#define ROW "SELECT c.* FROM chat_directory c WHERE "
#define NEWEST " ORDER BY c.created_at DESC, c.id DESC LIMIT 1"
/* Selects the newest conversation of a set of directory rows. */
#define NEWEST_OF(rows)                                                                            \
    "SELECT " CHAT_COLUMNS " FROM chat_conversation c WHERE c.id = (SELECT c.id FROM " rows NEWEST \
    ")"
#define EITHER(first, second)                                                                      \
    NEWEST_OF("((" ROW first " AND " CHAT_SEES NEWEST ") UNION ALL (" ROW second                   \
              " AND " CHAT_SEES NEWEST ")) c")
#define EITHER_NAMED(first, second)                                                                \
    NEWEST_OF("((" ROW first " AND " CHAT_SEES " OFFSET 0) UNION ALL (" ROW second                 \
              " AND " CHAT_SEES " OFFSET 0)) c")

/*
 * Statements, indexed by the number of e-mails and by whether there is a name. $1 to $3 are the
 * scope; the e-mails and the name follow. With fewer than two e-mails the statement may have to
 * skip many conversations that the caller may not see.
 */
static const struct bb_sql newest[3][2] = {
    {{NEWEST_OF("chat_directory c WHERE " CHAT_SEES), 0},
     {NEWEST_OF("(" ROW "c.device_project_name = $4::text AND " CHAT_SEES " OFFSET 0) c"),
      BB_SQL_LONG}},
    {{EITHER("c.participant1 = $4::text", "c.participant2 = $4::text"), BB_SQL_LONG},
     {EITHER_NAMED("c.participant1 = $4::text AND c.device_project_name = $5::text",
                   "c.participant2 = $4::text AND c.device_project_name = $5::text"),
      BB_SQL_LONG}},
    {{EITHER("c.participant1 = $4::text AND c.participant2 = $5::text",
             "c.participant1 = $5::text AND c.participant2 = $4::text"),
      0},
     {EITHER_NAMED("c.participant1 = $4::text AND c.participant2 = $5::text"
                   " AND c.device_project_name = $6::text",
                   "c.participant1 = $5::text AND c.participant2 = $4::text"
                   " AND c.device_project_name = $6::text"),
      0}},
};

/*
 * For a request without filters by a caller that acts for organizations ($1). Returns the newest
 * conversation that belongs to one of them, or in which the caller's e-mail ($2) takes part.
 */
static const struct bb_sql newest_of_organizations = {
    NEWEST_OF("((SELECT n.* FROM unnest($1::bigint[]) o CROSS JOIN LATERAL (" ROW
              "c.organisation = o" NEWEST ") n) UNION ALL (" ROW
              "c.participant1 = $2::text AND NOT c.withheld1" NEWEST ") UNION ALL (" ROW
              "c.participant2 = $2::text AND NOT c.withheld2" NEWEST ")) c"),
    BB_SQL_LONG,
};

struct filters {
    const char *emails[2];
    size_t count;
    const char *name;
};

/* Adds an e-mail, unless the list has it already or is full. */
static void find_add_email(struct filters *filters, const char *email)
{
    for (size_t i = 0; i < filters->count; i++)
        if (strcmp(filters->emails[i], email) == 0)
            return;
    if (filters->count < 2)
        filters->emails[filters->count++] = email;
}

int chat_find(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    const char *participant1 = bb_text(rq, "participant1");
    const char *participant2 = bb_text(rq, "participant2");
    struct filters filters = {.name = bb_text(rq, "deviceProjectName")};

    if (participant1 && participant2 && strcmp(participant1, participant2) == 0)
        return bb_reply(rq, 200, json_null());
    if (participant1)
        find_add_email(&filters, participant1);
    if (participant2)
        find_add_email(&filters, participant2);
    if (!scope.all && !scope.speaks) /* sees only conversations in which it takes part */
        find_add_email(&filters, scope.own);
    struct bb_value values[6] = {CHAT_SCOPE_ARGS(&scope)};
    size_t count = 3;

    for (size_t i = 0; i < filters.count; i++)
        values[count++] = bb_t(filters.emails[i]);
    if (filters.name)
        values[count++] = bb_t(filters.name);
    const struct bb_rows *rows =
        count == 3 && !scope.all
            ? bb_query_or_end(rq, &newest_of_organizations, values + 1, 2)
            : bb_query_or_end(rq, &newest[filters.count][filters.name != NULL], values, count);

    return bb_reply(rq, 200,
                    bb_count(rq, rows) == 0
                        ? json_null()
                        : bb_row_fields(rq, rows, 0, 0, chat_fields, CHAT_CONVERSATION));
}
