/*
 * Finds the organization that owns a conversation started by an Admin who names none, so that the
 * people it concerns can see it. It is the organization of the participant that has an account;
 * else the organization of the conversations in which the e-mail takes part; else the organization
 * whose device has the name; else none.
 */
#include <string.h>

#include "modules/chat/api/api.h"

#define LATEST_OF(side)                                                                            \
    "(SELECT organisation, created_at FROM chat_directory WHERE participant" side " = $1::text"    \
    " AND organisation IS NOT NULL ORDER BY created_at DESC LIMIT 1)"

static const struct bb_sql latest = {
    "SELECT organisation FROM (" LATEST_OF("1") " UNION ALL " LATEST_OF(
        "2") ") d"
             " ORDER BY created_at DESC LIMIT 1",
    0,
};

/* Each returns 1 with *organization, 0 if there is none, or -1 on failure. */
static int of_account(struct bb_request *rq, const char *email, int64_t *organization)
{
    const struct chat *chat = rq->state;
    int known = chat->accounts->organization_of(chat->accounts_state, rq, email, organization);

    return known > 0 ? *organization != 0 : known;
}

static int of_conversations(struct bb_request *rq, const char *email, int64_t *organization)
{
    const struct bb_rows *rows = bb_query(rq, &latest, BB_ARGS(bb_t(email)));

    if (!rows)
        return -1;
    if (bb_count(rq, rows) == 0)
        return 0;
    *organization = bb_cell_int(rq, rows, 0, 0);
    return 1;
}

static int of_device(struct bb_request *rq, const char *name, int64_t *organization)
{
    struct bb_service service = bb_service(rq->host, "devices");
    const struct bb_devices *devices = service.interface;

    return devices && name ? devices->organization_named(service.state, rq, name, organization) : 0;
}

/* Looks up each participant except the Admin. */
static int ask(struct bb_request *rq, const struct chat_facts *facts,
               int (*of)(struct bb_request *, const char *, int64_t *), int64_t *organization)
{
    const char *emails[] = {facts->participant1, facts->participant2};
    int found = 0;

    for (size_t i = 0; i < 2 && !found; i++)
        if (strcmp(emails[i], rq->principal->email) != 0)
            found = of(rq, emails[i], organization);
    return found;
}

int chat_owner(struct bb_request *rq, const struct chat_facts *facts, int64_t *organization)
{
    int found = ask(rq, facts, of_account, organization);

    if (!found)
        found = ask(rq, facts, of_conversations, organization);
    if (!found)
        found = of_device(rq, facts->device_project_name, organization);
    if (!found)
        *organization = rq->principal->organization;
    return found < 0 ? bb_failed(rq) : 0;
}
