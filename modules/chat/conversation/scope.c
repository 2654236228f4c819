/*
 * Checks who sees which conversations, and which e-mails a caller may speak for.
 *
 * Admins see all. An OrganizationAdmin or ApiUser sees the conversations of its organizations and
 * speaks in them for any e-mail, except for accounts registered elsewhere. Participants see the
 * conversation unless it is withheld: an account does not see messages that its e-mail wrote before
 * the account existed. A conversation that the caller may not see gets the same response as one
 * that does not exist.
 */
#include <string.h>

#include "modules/chat/conversation/chat.h"

static const int64_t no_organization = 0;

struct chat_scope chat_scope(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    const struct bb_principal *who = rq->principal;
    bool speaks = (who->role & (BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER)) != 0;
    struct chat_scope scope = {
        .all = chat->open_to_all || who->role == BB_ROLE_ADMIN,
        .speaks = speaks,
        .own = who->email,
        .organizations = &no_organization,
    };

    if (speaks && who->organization_count > 0) {
        scope.organizations = who->organizations;
        scope.organization_count = who->organization_count;
    }
    return scope;
}

bool chat_takes_part(const struct chat_facts *facts, const char *email)
{
    return strcmp(facts->participant1, email) == 0 || strcmp(facts->participant2, email) == 0;
}

static bool of_scope(const struct chat_scope *scope, int64_t organization)
{
    for (size_t i = 0; i < scope->organization_count; i++)
        if (scope->organizations[i] == organization)
            return organization != 0;
    return false;
}

bool chat_owns(const struct chat_scope *scope, const struct chat_facts *facts)
{
    return scope->all || of_scope(scope, facts->organization);
}

bool chat_sees(const struct chat_scope *scope, const struct chat_facts *facts)
{
    return chat_owns(scope, facts) ||
           (strcmp(facts->participant1, scope->own) == 0 && !facts->withheld1) ||
           (strcmp(facts->participant2, scope->own) == 0 && !facts->withheld2);
}

bool chat_asks_for_another(const struct chat_scope *scope, const char *email)
{
    return !scope->all && strcmp(email, scope->own) != 0;
}

/*
 * An account without an organization (an Admin) counts as one of another organization: nobody may
 * speak for it.
 */
int chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email)
{
    const struct chat *chat = rq->state;
    int64_t organization = 0;

    if (scope->all || strcmp(email, scope->own) == 0)
        return 0;
    if (!scope->speaks)
        return bb_fail(rq, 403, "You may only act for your own e-mail address");

    int known = chat->accounts->organization_of(chat->accounts_state, rq, email, &organization);

    if (known < 0)
        return bb_failed(rq);
    if (known > 0 && !of_scope(scope, organization))
        return bb_fail(rq, 403, "You may not act for an account of another organization");
    return 0;
}

int chat_visible(struct bb_request *rq, const struct chat_scope *scope, int64_t id,
                 const struct chat_facts **facts)
{
    int answered = chat_lookup(rq, id, facts);

    if (answered)
        return answered;
    if (!chat_sees(scope, *facts))
        return bb_fail(rq, 404, "Conversation not found");
    return 0;
}
