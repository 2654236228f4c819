/*
 * POST /api/chat/conversations/start
 *
 * Always starts a new conversation with its first message, in one statement. The conversation
 * belongs to the caller's organization, or to the one named by `organizationId`, in which the
 * caller must be allowed to act. An ApiUser of several organizations must name one. If an Admin
 * names none, start_organization() looks for one.
 */
#include <string.h>

#include "modules/chat/chat.h"
#include "modules/common/scope.h"

/*
 * $1 id, $2 organization, $3 and $4 participants, $5 name, $6 uuid, $7 author, $8 text, $9 time,
 * $10 and $11 whether the conversation is withheld from the accounts of the participants' e-mails
 */
static const struct bb_sql add_conversation = {
    "WITH c AS ("
    "INSERT INTO chat_conversation (id, organisation, participant1, participant2,"
    " device_project_name, head_uuid, last_entry_uuid, entries, unread1, unread2, last_at, "
    "withheld1,"
    " withheld2) VALUES ($1::bigint, $2::bigint, $3::text, $4::text, $5::text, $6::uuid, $6::uuid, "
    "1,"
    " ($3::text <> $7::text)::int, ($4::text <> $7::text)::int, clock_timestamp(),"
    " $10::boolean, $11::boolean)), d AS ("
    "INSERT INTO chat_directory (id, organisation, participant1, participant2,"
    " device_project_name, head_uuid, created_at, withheld1, withheld2)"
    " VALUES ($1::bigint, $2::bigint, $3::text, $4::text, $5::text, $6::uuid, clock_timestamp(),"
    " $10::boolean, $11::boolean))"
    " INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)"
    " VALUES ($1::bigint, 1, $6::uuid, $7::text, $8::text, $9::timestamptz)",
    BB_SQL_WRITE,
};

#define LATEST_OF(side)                                                                            \
    "(SELECT organisation, created_at FROM chat_directory WHERE participant" side " = $1::text"    \
    " AND organisation IS NOT NULL ORDER BY created_at DESC LIMIT 1)"
#define LATEST LATEST_OF("1") " UNION ALL " LATEST_OF("2")

static const struct bb_sql latest = {
    "SELECT organisation FROM (" LATEST ") d ORDER BY created_at DESC LIMIT 1", 0};

/* A participant. `known`: the e-mail has an approved account, or is the caller's. */
struct party {
    const char *email;
    bool caller, known;
    int64_t organization; /* of the e-mail's account; 0: none, or `caller` is true */
};

/* Returns the organization of the conversation; 0: none. */
static int64_t start_organization(struct bb_request *rq, const struct party parties[2])
{
    const struct bb_principal *who = rq->principal;
    int64_t organization;
    int refused = bb_organization(rq, bb_given_int(rq, "organizationId", 0), &organization);

    if (refused)
        bb_end(rq, refused);
    if (!organization && who->role == BB_ROLE_ADMIN) {
        /*
         * An Admin has named no organization. The people concerned should see the conversation,
         * so it belongs to the first organization found: of a participant's account, of a
         * participant's latest conversation, of the devices with the name, or of the Admin.
         */
        const char *device = bb_text(rq, "deviceProjectName");
        struct bb_service service = bb_service(rq->host, "devices");
        const struct bb_devices *devices = service.interface;

        for (size_t i = 0; i < 2 && !organization; i++)
            organization = parties[i].organization;
        for (size_t i = 0; i < 2 && !organization; i++) {
            const struct bb_rows *rows =
                parties[i].caller ? NULL
                                  : bb_query_or_end(rq, &latest, BB_ARGS(bb_t(parties[i].email)));

            if (rows && bb_count(rq, rows))
                organization = bb_cell_int(rq, rows, 0, 0);
        }
        if (!organization && device && devices &&
            devices->organization_named(service.state, rq, device, &organization) < 0)
            bb_end(rq, bb_failed(rq));
        return organization ? organization : who->organization;
    }
    if (who->role == BB_ROLE_ADMIN) { /* may act in any organization that exists */
        organization_check(rq, organization);
        return organization;
    }
    if (!organization && who->role == BB_ROLE_API_USER && who->organization_count > 1)
        bb_end(rq,
               bb_invalid(rq, "organizationId", "is required: you act for several organizations"));
    return organization ? organization : who->organization;
}

int chat_start(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    const char *username = bb_text(rq, "username");
    struct chat_scope scope = chat_scope(rq);
    struct chat_facts facts = {
        .participant1 = bb_text(rq, "participant1"),
        .participant2 = bb_text(rq, "participant2"),
        .device_project_name = bb_text(rq, "deviceProjectName"),
    };
    struct party parties[] = {{.email = facts.participant1}, {.email = facts.participant2}};

    if (strcmp(facts.participant1, facts.participant2) == 0)
        return bb_invalid(rq, "participant2", "must be another e-mail address than participant1");
    if (!scope.all && !scope.speaks && !chat_takes_part(&facts, scope.own))
        return bb_fail(rq, 403, "You may only start conversations in which you take part");
    chat_acts_for(rq, &scope, username);
    if (!chat_takes_part(&facts, username))
        return bb_invalid(rq, "username", "must be participant1 or participant2");
    for (struct party *at = parties; at < parties + 2; at++) {
        int known = 1;

        at->caller = strcmp(at->email, rq->principal->email) == 0;
        if (!at->caller)
            known = chat->accounts->organization_of(chat->accounts_state, rq, at->email,
                                                    &at->organization);
        if (known < 0)
            return bb_failed(rq);
        at->known = known > 0;
    }
    facts.organization = start_organization(rq, parties);
    struct chat_message message = chat_entry_read(rq);

    facts.withheld1 = !parties[0].known;
    facts.withheld2 = !parties[1].known;
    facts.id = bb_next_id(rq, "chat_conversation_id");
    if (facts.id < 0)
        return bb_failed(rq);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)facts.id);
    struct bb_value organization = facts.organization ? bb_i(facts.organization) : bb_null();

    if (!unit ||
        bb_add(rq, unit, &add_conversation,
               BB_ARGS(bb_i(facts.id), organization, bb_t(facts.participant1),
                       bb_t(facts.participant2), bb_t(facts.device_project_name),
                       bb_t(message.uuid), bb_t(message.username), bb_t(message.entry),
                       bb_t(message.created_at), bb_b(facts.withheld1), bb_b(facts.withheld2))) < 0)
        return bb_failed(rq);
    chat_emit(rq, unit, "conversation.created", chat_created_payload(&facts, &message), &facts);
    if (chat->settings->message_new_on_start)
        chat_emit(rq, unit, "message.new", chat_new_payload(&facts, &message), &facts);
    return chat_commit(rq, unit, 201,
                       json_pack("{s:{s:I, s:s, s:s, s:s, s:s, s:s?}, s:o}", "conversation", "id",
                                 (json_int_t)facts.id, "participant1", facts.participant1,
                                 "participant2", facts.participant2, "headUuid", message.uuid,
                                 "lastEntryUuid", message.uuid, "deviceProjectName",
                                 facts.device_project_name, "message",
                                 chat_message_json(&message)));
}
