/*
 * The tables of the auth module, opening and closing, and the job auth.cleanup. Rows are
 * hand-formatted, because clang-format would spread them over many lines.
 */
#include "modules/auth/auth.h"
#include "modules/auth/schema.h"
#include "modules/common/tables.h"

static void auth_close(struct bb_host *host, void *state)
{
    struct auth *auth = state;

    (void)host;
    auth_throttle_free(auth->throttle);
    auth_keys_free(auth->keys);
    cache_free(auth->cache);
}

static int auth_open(struct bb_host *host, void **state)
{
    struct auth *auth = bb_host_alloc(host, sizeof(*auth));
    const struct auth_settings *settings = bb_settings(host);
    uint64_t seeds[2];

    if (!auth)
        return bb_open_fail(host, "out of memory");
    auth->host = host;
    auth->settings = settings;
    auth->session_s = settings->session_days * 86400;
    auth->client_s = settings->client_minutes * 60;
    if (*settings->link &&
        (!strstr(settings->link, "{token}") || (strncmp(settings->link, "https://", 8) != 0 &&
                                                strncmp(settings->link, "http://", 7) != 0)))
        return bb_open_fail(host, "link: must be an http or https URL that contains {token}");
    auth->cost = (struct auth_cost){
        .rounds = (uint32_t)settings->argon2_rounds,
        .memory_kib = (uint32_t)settings->argon2_memory,
        .lanes = (uint32_t)settings->argon2_lanes,
    };
    if (bb_random(host, seeds, sizeof(seeds)) || auth_password_dummy(auth))
        return bb_open_fail(host, "no random bytes");
    auth->cache = cache_new((size_t)settings->cache_entries, seeds[0]);
    auth->keys = auth_keys_new();
    auth->throttle = auth_throttle_new(host, seeds[1]);
    if (auth->cache && auth->keys && auth->throttle) {
        *state = auth;
        return 0;
    }
    auth_close(host, auth);
    return bb_open_fail(host, "out of memory");
}

static void auth_start(struct bb_host *host, void *state)
{
    const struct auth_settings *settings = ((struct auth *)state)->settings;

    if ((settings->confirm_email || settings->invitations) && !auth_sends_mail(host))
        bb_host_log(host, BB_WARN,
                    "auth.confirm_email and auth.invitations have no effect, because the module "
                    "mail is not loaded");
}

/*
 * The job auth.cleanup deletes expired rows (sessions, keys that no valid token names, networks
 * without a recent login, links) and accounts that were never approved.
 */

#define BATCH 1000
#define BATCH_TEXT "1000"

#define OLD(table, key, time)                                                                      \
    "DELETE FROM " table " WHERE (" key ") IN (SELECT " key " FROM " table " WHERE " time          \
    " < now() - make_interval(secs => $1::bigint) ORDER BY " time " LIMIT " BATCH_TEXT             \
    " FOR UPDATE SKIP LOCKED)"

/*
 * Also deletes the account's organization, unless another account is in it or acts for it. The
 * subquery locks the rows. Without this, the DELETE may wait for an approval in progress, still see
 * the account as not approved, and delete it.
 */
#define NEVER_APPROVED                                                                             \
    "WITH gone AS (DELETE FROM auth_account WHERE id IN (SELECT a.id FROM auth_account a "         \
    "WHERE a.status IN ('Pending', 'Active') AND a.approved IS NULL "                              \
    "AND a.created < now() - make_interval(secs => $1::bigint) "                                   \
    "AND NOT EXISTS (SELECT FROM auth_organisation o WHERE o.api_user = a.id) "                    \
    "ORDER BY a.created LIMIT " BATCH_TEXT " FOR UPDATE SKIP LOCKED) RETURNING id, organisation)," \
    " organisations AS (DELETE FROM auth_organisation o USING gone g WHERE o.id = g.organisation " \
    "AND o.api_user IS NULL AND NOT EXISTS (SELECT FROM auth_account b WHERE b.organisation = "    \
    "o.id AND b.id NOT IN (SELECT id FROM gone))) SELECT id FROM gone"

enum { SWEEP = BB_SQL_WRITE | BB_SQL_LONG, DAY_S = 86400 };

static const struct {
    struct bb_sql sql;
    const char *what;
} sweeps[] = {
    {{OLD("auth_session", "jti", "expires"), SWEEP}, "expired sessions"},
    {{OLD("auth_refresh", "id", "expires"), SWEEP}, "expired refresh tokens"},
    {{OLD("auth_link", "hash", "expires"), SWEEP}, "expired links"},
    /* without a module that sends mails, no other code deletes these requests */
    {{OLD("auth_link_request", "id", "created"), SWEEP}, "old requests for links"},
    {{OLD("auth_origin", "account, network", "seen"), SWEEP}, "networks of logins"},
    {{OLD("auth_key", "kid", "retired"), SWEEP}, "retired signing keys"},
    {{NEVER_APPROVED, SWEEP}, "accounts that were never approved"},
};

static void auth_cleanup(struct bb_request *rq)
{
    const struct auth *auth = rq->state;
    const int64_t ages_s[] = {DAY_S,
                              DAY_S,
                              DAY_S,
                              DAY_S,
                              90 * DAY_S,
                              auth->session_s + auth->client_s,
                              DAY_S * auth->settings->pending_days};

    for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++) {
        const struct bb_rows *rows;

        do
            rows = bb_query(rq, &sweeps[i].sql, BB_ARGS(bb_i(ages_s[i])));
        while (rows && bb_affected(rq, rows) == BATCH);
        if (!rows)
            bb_log(rq, BB_WARN, "cannot delete %s: %s", sweeps[i].what, bb_sqlstate(rq));
    }
}

// clang-format off

static const char *const role_names[] = {"Admin", "OrganizationAdmin", "DeviceOwner", "Buyer",
                                         "User",  "ApiUser",           NULL};
static const char *const states[] = {"Pending", "Active", "Suspended", "Deleted", NULL};
static const char *const types[] = {"Developer", "Buyer", "ApiUser", NULL};

/* ---- fields ------------------------------------------------------------------------------- */

#define TEXT(field, bits, shown)                                                                   \
    {.name = (field), .type = BB_TEXT, .flags = (bits), .example = (shown)}
#define GIVEN(field, least, most, bits, words, shown)                                              \
    {.name = (field), .type = BB_TEXT, .flags = (bits), .min = (least), .max = (most),             \
     .help = (words), .example = (shown)}
#define NEW_PASSWORD(field, shown)                                                                 \
    {.name = (field), .type = BB_TEXT, .flags = BB_REQUIRED | BB_SECRET, .min = 8, .max = 256,     \
     .help = "The new password, 8 to 256 characters.", .example = (shown)}
/* Accepts any text, because an unknown username of any form must get a 401. */
#define USERNAME(bits, shown)                                                                      \
    {.name = "username", .type = BB_TEXT, .flags = BB_VERBATIM | (bits), .alias = "email",         \
     .help = "The account's e-mail. `email` is accepted as the name of this field, too.",          \
     .example = (shown)}
#define TRIED_PASSWORD(field, bits, other, words, shown)                                           \
    {.name = (field), .type = BB_TEXT, .flags = BB_SECRET | BB_VERBATIM | (bits),                  \
     .alias = (other), .help = (words), .example = (shown)}
#define NUMBER(field, shown)                                                                       \
    {.name = (field), .type = BB_INT, .flags = BB_REQUIRED, .example = (shown)}
/* The examples of all modules are about the plant of this person and organization. */
#define PASSWORD "correct horse battery staple"
#define FIRST_NAME "Ada"
#define LAST_NAME "Fischer"
#define ORGANIZATION_NAME "Rooftop Energy"
#define ADDRESS "Seestr. 7, 13353 Berlin"
#define CLIENT_ID "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11"
#define CLIENT_SECRET "2f7ad0c5e1b94863"
#define TOKEN_SHOWN "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjFmMGMifQ.eyJzdWIiOiI0In0.c2lnbmF0dXJl"
#define TIME(field)                                                                                \
    {.name = (field), .type = BB_TIME, .flags = BB_REQUIRED}

static const struct bb_field session_segment[] = {
    {.name = "id", .type = BB_UUID, .flags = BB_REQUIRED, .help = "The id in the list."},
};
static const struct bb_field id_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "Its id."},
};

#define PAGE                                                                                       \
    QUERY_LIMIT(AUTH_PAGE_MAX, "Items per page. The `Link` header has the next page."),            \
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = INT64_MAX)

static const struct bb_field page_query[] = {PAGE};
static const struct bb_field user_query[] = {
    PAGE,
    {.name = "status", .type = BB_CHOICE, .choices = states, .help = "Only items in this state."},
    {.name = "role", .type = BB_CHOICE, .choices = role_names, .help = "Only accounts with this role."},
    {.name = "search", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "Only accounts whose e-mail, name or organization contains this text."},
    QUERY_ORGANIZATION("Only accounts of this organization."),
};

static const struct bb_field register_body[] = {
    GIVEN("firstName", 1, 100, BB_REQUIRED | BB_NOT_BLANK | BB_NAME, "First name.", FIRST_NAME),
    GIVEN("lastName", 1, 100, BB_REQUIRED | BB_NOT_BLANK | BB_NAME, "Last name.", LAST_NAME),
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED | BB_NFKC,
     .help = "The e-mail to log in with.", .example = "ada@example.com"},
    NEW_PASSWORD("password", PASSWORD),
    GIVEN("orgName", 1, 255, BB_REQUIRED | BB_NOT_BLANK | BB_NAME,
          "Name of your organization. It must be new.", ORGANIZATION_NAME),
    {.name = "organizationType", .type = BB_CHOICE, .flags = BB_NULLABLE, .choices = types,
     .example = "Developer",
     .help = "Decides the role: Developer (the default) becomes OrganizationAdmin; Buyer and "
             "ApiUser become Buyer and ApiUser."},
};
static const struct bb_field login_body[] = {
    USERNAME(BB_REQUIRED, "ada@example.com"),
    TRIED_PASSWORD("password", BB_REQUIRED, NULL, "The account's password.", PASSWORD),
    {.name = "remember", .type = BB_BOOL,
     .help = "For browsers: also set a cookie with which POST /api/auth/refresh returns new access "
             "tokens. The access tokens are then valid for an hour."},
};
static const struct bb_field password_body[] = {
    {.name = "current", .type = BB_TEXT, .flags = BB_SECRET | BB_REQUIRED, .min = 1, .max = 256,
     .help = "The current password.", .example = PASSWORD},
    NEW_PASSWORD("new", "purple monkey dishwasher"),
};
#define LINK_TOKEN                                                                                 \
    {.name = "token", .type = BB_TEXT, .flags = BB_SECRET | BB_REQUIRED, .min = 1, .max = 128,     \
     .help = "The token of the link in the mail.", .example = "q0w8Zr3yT6uJ1kPc"}
static const struct bb_field link_request_body[] = {
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED, .alias = "username",
     .help = "The account's e-mail."},
};
static const struct bb_field reset_body[] = {LINK_TOKEN, NEW_PASSWORD("password", PASSWORD)};
static const struct bb_field confirm_body[] = {LINK_TOKEN};
static const struct bb_field access_body[] = {
    USERNAME(BB_EMPTY, NULL),
    TRIED_PASSWORD("password", 0, NULL, "The ApiUser's password.", NULL),
    {.name = "grant_type", .type = BB_TEXT, .max = 64, .alias = "grantType",
     .help = "client_credentials. It may be left out with a client_id and its secret.",
     .example = "client_credentials"},
    {.name = "client_id", .type = BB_TEXT, .max = 64, .alias = "clientId",
     .help = "From POST /api/auth/clients.", .example = CLIENT_ID},
    TRIED_PASSWORD("client_secret", 0, "clientSecret", "The secret of the client.", CLIENT_SECRET),
    {.name = "scope", .type = BB_TEXT, .max = 1000, .help = "Accepted and ignored."},
};
static const struct bb_field client_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_CLEARS | BB_NAME, .max = 100,
     .help = "A name to recognize the client by in the list; null: none.", .example = "Nightly import"},
    {.name = "expiresAt", .type = BB_TIME, .flags = BB_CLEARS, .example = "2030-01-01T00:00:00Z",
     .help = "When the client and its tokens expire; null: never."},
};
static const struct bb_field organization_body[] = {
    GIVEN("name", 1, 255, BB_REQUIRED | BB_NOT_BLANK | BB_NAME,
          "Name of the organization. It must be new.", "Lakeside Solar"),
    GIVEN("address", 0, 1000, BB_NULLABLE, "Postal address.", ADDRESS),
};
static const struct bb_field link_body[] = {
    {.name = "apiUserId", .type = BB_INT, .min = 0, .max = INT64_MAX,
     .flags = BB_REQUIRED | BB_CLEARS,
     .help = "Id of the ApiUser account; 0 or null removes the link.", .example = "3"},
};
static const char *const languages[] = {"en", "de", NULL};
static const char *const colleague_roles[] = {"OrganizationAdmin", "DeviceOwner", "Buyer", "User",
                                              NULL};
#define INVITED(roles, shown)                                                                      \
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED | BB_NFKC,                            \
     .help = "The e-mail to which the invitation is sent.", .example = (shown)},                   \
    {.name = "role", .type = BB_CHOICE, .choices = (roles), .flags = BB_REQUIRED,                  \
     .help = "The account's role.", .example = "DeviceOwner"},                                     \
    GIVEN("firstName", 1, 100, BB_NOT_BLANK | BB_NAME, "First name.", "Ben"),                      \
    GIVEN("lastName", 1, 100, BB_NOT_BLANK | BB_NAME, "Last name.", "Weber"),                      \
    {.name = "language", .type = BB_CHOICE, .choices = languages, .example = "en",                 \
     .help = "Language of the mail. Default: the setting mail.language."}
static const struct bb_field colleague_body[] = {INVITED(colleague_roles, "eva@example.com")};
static const struct bb_field invite_body[] = {
    INVITED(role_names, "ben@example.com"),
    GIVEN("orgName", 1, 255, BB_NOT_BLANK | BB_NAME,
          "Name of the account's organization. It is created if it does not exist.",
          ORGANIZATION_NAME),
};
static const struct bb_field me_body[] = {
    GIVEN("firstName", 1, 100, BB_NOT_BLANK | BB_NAME, "First name.", FIRST_NAME),
    GIVEN("lastName", 1, 100, BB_NOT_BLANK | BB_NAME, "Last name.", LAST_NAME),
};
static const struct bb_field user_body[] = {
    GIVEN("firstName", 1, 100, BB_NOT_BLANK | BB_NAME, "First name.", NULL),
    GIVEN("lastName", 1, 100, BB_NOT_BLANK | BB_NAME, "Last name.", NULL),
    {.name = "email", .type = BB_EMAIL, .flags = BB_NFKC, .help = "The e-mail to log in with."},
    {.name = "status", .type = BB_CHOICE, .choices = states,
     .help = "Active approves a Pending account.", .example = "Active"},
    {.name = "role", .type = BB_CHOICE, .choices = role_names, .help = "The new role.",
     .example = "OrganizationAdmin"},
};

/* ---- replies ------------------------------------------------------------------------------ */

#define ACCOUNT                                                                                    \
    NUMBER("id", "4"), {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED},                  \
        TEXT("firstName", BB_REQUIRED, FIRST_NAME), TEXT("lastName", BB_REQUIRED, LAST_NAME),      \
        {.name = "role", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = role_names,           \
         .example = "OrganizationAdmin"},                                                          \
        {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states,             \
         .example = "Active"},                                                                     \
        {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE | BB_REQUIRED,             \
         .example = "2"},                                                                          \
        TIME("createdAt")

/* The fields of a row have the order of the selected columns. */
const struct bb_field auth_account_fields[] = {ACCOUNT};
static const struct bb_field change_reply[] = {
    ACCOUNT,
    {.name = "conversations", .type = BB_INT, .flags = BB_VOLATILE,
     .help = "Only when the account was just approved, or is approved and got another e-mail: how "
             "many existing conversations have that e-mail."},
};
static const struct bb_field number_item[] = {NUMBER("id", "2")};
static const struct bb_field organization_name[] = {NUMBER("id", "2"),
                                                    TEXT("name", BB_REQUIRED, ORGANIZATION_NAME)};
const struct bb_field auth_me_fields[] = {
    ACCOUNT,
    {.name = "organizationIds", .type = BB_LIST, .flags = BB_REQUIRED,
     .fields = BB_TABLE(number_item)},
    {.name = "organizations", .type = BB_LIST, .flags = BB_REQUIRED,
     .fields = BB_ITEMS(organization_name), .help = "The same organizations, with their names."},
};
static const struct bb_field message_reply[] = {TEXT("message", BB_REQUIRED, "Logout successful")};
static const struct bb_field rotate_reply[] = {
    TEXT("message", BB_REQUIRED, "Signing key replaced"), TEXT("kid", BB_REQUIRED, "9b2f1c6e")};
static const struct bb_field access_reply[] = {
    TEXT("accessToken", BB_REQUIRED, TOKEN_SHOWN),
    TEXT("access_token", BB_REQUIRED, TOKEN_SHOWN),
    TEXT("token_type", BB_REQUIRED, "Bearer"),
    NUMBER("expires_in", "3600"),
    {.name = "expiresAt", .type = BB_TIME, .flags = BB_REQUIRED},
};
#define CLIENT                                                                                     \
    NUMBER("id", "5"), TEXT("client_id", BB_REQUIRED, CLIENT_ID),                                  \
        TEXT("name", BB_REQUIRED, "Nightly import"), TIME("createdAt"),                            \
        {.name = "usedAt", .type = BB_TIME, .flags = BB_NULLABLE | BB_REQUIRED,                    \
         .help = "When the client last got a token, up to an hour later than this; null: never."},       \
        {.name = "expiresAt", .type = BB_TIME, .flags = BB_NULLABLE | BB_REQUIRED,                 \
         .example = "2030-01-01T00:00:00Z", .help = "null: never."}

const struct bb_field auth_client_fields[] = {CLIENT};
static const struct bb_field client_reply[] = {
    CLIENT, TEXT("client_secret", BB_REQUIRED, CLIENT_SECRET)};
const struct bb_field auth_organization_fields[] = {
    NUMBER("id", "2"),
    TEXT("name", BB_REQUIRED, ORGANIZATION_NAME),
    TEXT("type", BB_REQUIRED, "Developer"),
    TEXT("address", BB_NULLABLE | BB_REQUIRED, ADDRESS),
    {.name = "apiUserId", .type = BB_INT, .flags = BB_NULLABLE | BB_REQUIRED, .example = "3"},
    TIME("createdAt"),
};

const struct bb_field auth_session_fields[] = {
    {.name = "id", .type = BB_UUID, .flags = BB_REQUIRED},
    TIME("createdAt"),
    {.name = "usedAt", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "When the session last got an access token."},
    TIME("expiresAt"),
    {.name = "userAgent", .type = BB_TEXT, .flags = BB_NULLABLE | BB_REQUIRED,
     .help = "The browser that logged in; null for a session without a refresh token.",
     .example = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
    {.name = "network", .type = BB_TEXT, .flags = BB_NULLABLE | BB_REQUIRED,
     .help = "The address, or the /64 of an IPv6 address, from which it logged in; null as above.",
     .example = "192.0.2.7"},
    {.name = "current", .type = BB_BOOL, .flags = BB_REQUIRED,
     .help = "Whether this request was sent in this session."},
};

static const int not_known[] = {401, 403, 0};  /* errors of a login */
static const int not_refreshed[] = {204, 401, 403, 0};
static const int registered[] = {202, 409, 0}; /* 202: with register_silent */

/* ---- routes ------------------------------------------------------------------------------- */

enum {
    PUBLIC_BODY_MAX = 32768, /* anonymous clients need no large bodies */
    HASH_DEADLINE_MS = 20000 /* a password may wait long for its hash on a busy processor */
};

#define PUBLIC(place, run)                                                                         \
    .method = "POST", .path = (place), .roles = BB_ANYONE, .handler = (run),                       \
    .body_max = PUBLIC_BODY_MAX
#define ADMIN(verb, place, run)                                                                    \
    .method = (verb), .path = "/api/admin" place, .roles = BB_ROLE_ADMIN, .handler = (run)
#define ID .segments = BB_TABLE(id_segment)

static const struct bb_route routes[] = {
    {PUBLIC("/api/user/register", auth_register), .errors = registered, .flags = BB_CREATES,
     .body = BB_TABLE(register_body), .reply = BB_TABLE(auth_account_fields), .success = 201,
     .help = "Register an account. It stays Pending, and cannot log in, until an Admin approves "
             "it."},
    {.method = "PUT", .path = "/api/user/password", .flags = BB_AUDITED, .roles = BB_ANY_ROLE,
     .handler = auth_change_password, .errors = conflict, .body = BB_TABLE(password_body),
     .reply = BB_TABLE(message_reply),
     .help = "Change your password. All your other sessions end."},
    {PUBLIC("/api/user/password/reset-request", auth_reset_request), .errors = conflict,
     .body = BB_TABLE(link_request_body), .reply = BB_TABLE(message_reply), .success = 202,
     .help = "Get a mail with a link to choose a new password. The response is the same if no "
             "account has the e-mail. 409: the service sends no mails."},
    {PUBLIC("/api/user/password/reset", auth_reset), .body = BB_TABLE(reset_body),
     .deadline_ms = HASH_DEADLINE_MS, .reply = BB_TABLE(message_reply),
     .help = "Choose a new password with the token of a link. All sessions of the account end."},
    {PUBLIC("/api/user/email/confirm-request", auth_confirm_request), .errors = conflict,
     .body = BB_TABLE(link_request_body), .reply = BB_TABLE(message_reply), .success = 202,
     .help = "Get another mail with a link to confirm your e-mail. The response is the same if no "
             "account has the e-mail. 409: the service sends no mails."},
    {PUBLIC("/api/user/email/confirm", auth_confirm), .body = BB_TABLE(confirm_body),
     .reply = BB_TABLE(message_reply), .help = "Confirm an e-mail with the token of a link."},
    {PUBLIC("/api/auth/login", auth_login), .errors = not_known, .body = BB_TABLE(login_body),
     .deadline_ms = HASH_DEADLINE_MS, .reply = BB_TABLE(access_reply),
     .help = "Log in with e-mail and password. Returns a session token; each login is a separate "
             "session."},
    {PUBLIC("/api/auth/refresh", auth_refresh), .errors = not_refreshed,
     .reply = BB_TABLE(access_reply), .flags = BB_NO_BODY,
     .help = "Get an access token with the cookie of a login with `remember`. The cookie is "
             "replaced. 204: the request has no such cookie."},
    {.method = "GET", .path = "/api/auth/sessions", .roles = BB_ANY_ROLE,
     .handler = auth_session_list, .reply = BB_ARRAY_OF(auth_session_fields),
     .help = "List your sessions, the last used first, at most 200."},
    {.method = "DELETE", .path = "/api/auth/sessions/:id", .roles = BB_ANY_ROLE,
     .handler = auth_session_delete, .segments = BB_TABLE(session_segment),
     .reply = BB_TABLE(success_reply), .flags = BB_NO_BODY | BB_AUDITED,
     .help = "End one of your sessions. Its tokens are revoked."},
    {.method = "POST", .path = "/api/auth/logout", .roles = BB_ANY_ROLE, .handler = auth_logout,
     .reply = BB_TABLE(message_reply), .flags = BB_NO_BODY | BB_AUDITED,
     .help = "Log out. The session ends: its tokens are revoked, and the cookie is removed."},
    {.method = "GET", .path = "/api/auth/me", .roles = BB_ANY_ROLE, .handler = auth_me,
     .reply = BB_TABLE(auth_me_fields), .help = "Get your own account."},
    {.method = "PATCH", .path = "/api/auth/me", .roles = BB_ANY_ROLE, .handler = auth_me_change,
     .body = BB_TABLE(me_body), .reply = BB_TABLE(auth_me_fields), .flags = BB_NO_BODY | BB_AUDITED,
     .help = "Change your own name."},
    {PUBLIC("/api/auth/getAccess", auth_get_access), .errors = not_known,
     .flags = BB_NO_BODY | BB_FORM_TOO | BB_OAUTH_ERRORS, .body = BB_TABLE(access_body),
     .deadline_ms = HASH_DEADLINE_MS, .reply = BB_TABLE(access_reply),
     .help = "Get an access token for a program. Send OAuth 2.0 client credentials (as JSON, as a "
             "form, or by HTTP Basic), or the e-mail and password of an ApiUser."},
    {.method = "POST", .path = "/api/auth/clients", .roles = BB_ROLE_API_USER,
     .handler = auth_client_create, .body = BB_TABLE(client_body), .reply = BB_TABLE(client_reply),
     .flags = BB_CREATES | BB_NO_BODY | BB_AUDITED, .success = 201,
     .help = "Create an API client. The response is the only one that shows its secret."},
    {.method = "GET", .path = "/api/auth/clients", .roles = BB_ROLE_API_USER,
     .handler = auth_client_list, .query = BB_TABLE(page_query),
     .reply = BB_ARRAY_OF(auth_client_fields), .help = "List your API clients."},
    {.method = "PATCH", .path = "/api/auth/clients/:id", .roles = BB_ROLE_API_USER,
     .handler = auth_client_change, ID, .body = BB_TABLE(client_body),
     .reply = BB_TABLE(auth_client_fields), .flags = BB_NO_BODY | BB_AUDITED,
     .help = "Change the name of an API client, or when it expires."},
    {.method = "POST", .path = "/api/auth/clients/:id/rotate-secret", .roles = BB_ROLE_API_USER,
     .handler = auth_client_rotate, ID, .reply = BB_TABLE(client_reply),
     .flags = BB_NO_BODY | BB_AUDITED,
     .help = "Replace the secret of an API client. The response is the only one that shows it. The "
             "old secret ends at once, and the client's tokens are revoked."},
    {.method = "DELETE", .path = "/api/auth/clients/:id", .roles = BB_ROLE_API_USER,
     .handler = auth_client_delete, ID, .reply = BB_TABLE(success_reply), .flags = BB_NO_BODY | BB_AUDITED,
     .help = "Delete an API client. Its tokens are revoked."},
    {.method = "POST", .path = "/api/organization", .roles = BB_ROLE_API_USER,
     .handler = auth_organization_create, .errors = conflict, .body = BB_TABLE(organization_body),
     .reply = BB_TABLE(auth_organization_fields), .flags = BB_CREATES | BB_AUDITED, .success = 201,
     .help = "Create an organization that you act for."},
    {.method = "GET", .path = "/api/organization/members", .roles = BB_ROLE_ORGANIZATION_ADMIN,
     .handler = auth_members, .query = BB_TABLE(page_query),
     .reply = BB_ARRAY_OF(auth_account_fields), .help = "List the accounts of your organization."},
    {.method = "POST", .path = "/api/organization/invitations", .roles = BB_ROLE_ORGANIZATION_ADMIN,
     .handler = auth_invite, .errors = conflict, .body = BB_TABLE(colleague_body),
     .reply = BB_TABLE(auth_account_fields), .flags = BB_CREATES | BB_AUDITED, .success = 201,
     .help = "Invite a person into your organization: creates an active account, and sends a mail "
             "with a link to choose its password."},
    {ADMIN("GET", "/organizations", auth_organization_list), .query = BB_TABLE(page_query),
     .reply = BB_ARRAY_OF(auth_organization_fields), .help = "List all organizations."},
    {ADMIN("PUT", "/organizations/:id", auth_organization_link), .flags = BB_AUDITED, ID,
     .body = BB_TABLE(link_body), .reply = BB_TABLE(auth_organization_fields),
     .help = "Set the ApiUser that acts for an organization."},
    {ADMIN("GET", "/users", auth_user_list), .query = BB_TABLE(user_query),
     .reply = BB_ARRAY_OF(auth_account_fields), .help = "List all accounts."},
    {ADMIN("POST", "/users", auth_invite), .errors = conflict, .flags = BB_CREATES | BB_AUDITED,
     .body = BB_TABLE(invite_body), .reply = BB_TABLE(auth_account_fields), .success = 201,
     .help = "Invite a person: creates an active account, and sends a mail with a link to choose "
             "its password. 409: the service sends no mails."},
    {ADMIN("GET", "/users/:id", auth_user_get), .flags = BB_VERSIONED, ID,
     .reply = BB_TABLE(auth_account_fields), .help = "Get an account."},
    {ADMIN("PUT", "/users/:id", auth_user_change), .flags = BB_AUDITED | BB_VERSIONED, ID,
     .errors = conflict, .body = BB_TABLE(user_body), .reply = BB_TABLE(change_reply),
     .help = "Change an account. This approves, suspends or deletes it (`status`), and changes "
             "its role, name or e-mail. It takes effect on every host within a second."},
    {ADMIN("POST", "/rotate-secret", auth_rotate), .flags = BB_NO_BODY | BB_AUDITED,
     .reply = BB_TABLE(rotate_reply),
     .help = "Rotate the signing key. This revokes all tokens of all accounts, including the "
             "caller's."},
};

/* ---- settings ----------------------------------------------------------------------------- */

#define SETTINGS struct auth_settings
static const struct bb_field settings[] = {
    SETTING_INT(session_days, BB_DAYS, 1, 365, "7",
        "Days for which a login's token, and an unused refresh token, are valid."),
    SETTING_INT(client_minutes, BB_MINUTES, 1, 10080, "60",
        "Minutes for which an API client's token is valid."),
    SETTING_INT(login_failures_per_account, 0, 1, 1000000, "10",
        "Maximum number of failed logins to an account from an address within login_window. For "
        "all addresses together, ten times this number."),
    SETTING_INT(login_failures_per_address, 0, 1, 1000000, "50",
        "Maximum number of failed logins from an address within login_window, to accounts that "
        "have not logged in from it in the last 90 days. busbar knows the 16 most recent addresses "
        "of each account."),
    SETTING_INT(login_window, BB_SECONDS, 1, 86400, "60",
        "Seconds for which failed logins and registrations are counted. A counter begins with the first of them."),
    SETTING_INT(registrations_per_address, 0, 1, 1000000, "20",
        "Maximum number of registrations from an address within login_window."),
    SETTING_INT(pending_days, BB_DAYS, 1, 3650, "30",
        "Days after which accounts that were never approved are deleted."),
    SETTING_BOOL(register_silent, "false",
        "Whether a registration always gets 202, which does not reveal whether the e-mail has an account."),
    {.name = "link", .type = BB_TEXT, .max = 1024, .fallback = "",
     .bind = BB_BIND(struct auth_settings, link),
     .help = "Address of the page that mails link to: {token} stands for the token, and {purpose} "
             "for reset, confirm or invite. Empty: the mails contain the token only.",
     .example = "https://busbar.example/console#/link/{purpose}?token={token}"},
    SETTING_INT(links_per_address, 0, 1, 1000000, "20",
        "Maximum number of mails with a link that an address can request within login_window."),
    SETTING_BOOL(confirm_email, "false",
        "Whether a registration sends a mail with a link, which must be used before an Admin "
        "approves the account. Needs the module mail."),
    SETTING_BOOL(invitations, "false",
        "Whether Admins, and OrganizationAdmins for their organization, can invite people by mail. "
        "Needs the module mail."),
    SETTING_INT(argon2_rounds, 0, 1, 64, "2", "Number of passes of argon2id."),
    SETTING_INT(argon2_memory, 0, 64, 1048576, "19456", "Memory of a password hash in KiB."),
    SETTING_INT(argon2_lanes, 0, 1, 16, "1", "Parallelism of argon2id (lanes)."),
    SETTING_INT(cache_entries, 0, 0, 1048576, "16384",
        "Maximum number of tokens in the cache. 0: every request queries PostgreSQL."),
};

/* ---- the rest ----------------------------------------------------------------------------- */

static const struct bb_service_descriptor services[] = {
    {.name = "authenticator", .version = 1, .interface = &auth_authenticator},
    {.name = "accounts", .version = 1, .interface = &auth_accounts},
};

static const struct bb_need wants[] = {{"conversations", 1}, {"mail", 1}};

static const struct bb_channel channels[] = {{.name = AUTH_CHANNEL, .heard = auth_changed}};

static const struct bb_job jobs[] = {
    {.name = "auth.cleanup", .every_s = 3600, .flags = BB_ONCE, .run = auth_cleanup},
    {.name = "auth.links", .every_s = 10, .run = auth_links_job},
};

static const char *const login_outcomes[] = {"done",      "refused", "not_admitted",
                                             "throttled", "failed",  NULL};

/* The order is the same as in enum auth_metric and enum auth_login_outcome. */
static const struct bb_metric metrics[] = {
    {.name = "logins_total", .kind = BB_COUNTER, .label = "outcome", .values = login_outcomes,
     .help = "Logins and calls of getAccess. not_admitted: the account is pending or suspended, or "
             "its role is not allowed; failed: an internal error."},
};

static const struct bb_pool pools[] = {
    {.name = "hash", .queue = 384, .nice = 5},
    {.name = "register", .threads = 1, .queue = 64, .nice = 15},
};

static const struct bb_field user_add_options[] = {
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED | BB_NFKC,
     .help = "The account's e-mail."},
    NEW_PASSWORD("password", NULL),
    {.name = "role", .type = BB_CHOICE, .choices = role_names, .fallback = "Admin",
     .help = "The account's role."},
    {.name = "first-name", .type = BB_TEXT, .flags = BB_NAME, .max = 100, .help = "First name."},
    {.name = "last-name", .type = BB_TEXT, .flags = BB_NAME, .max = 100, .help = "Last name."},
    {.name = "organization", .type = BB_TEXT, .flags = BB_NOT_BLANK, .min = 1, .max = 255,
     .help = "The organization's name; it is created if it does not exist."},
    {.name = "if-absent", .type = BB_BOOL,
     .help = "Succeed without a change if the account already exists."},
};

static const struct bb_command commands[] = {
    {.name = "user add", .options = BB_TABLE(user_add_options), .run = auth_command_user_add,
     .help = "Adds an active account."},
    {.name = "rotate-secret", .run = auth_command_rotate,
     .help = "Replaces the signing key: revokes every token on all hosts."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("auth", "1.0.0"),
    .help = "Accounts, organizations, logins and tokens.",
    .schema = auth_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct auth_settings),
    .routes = BB_TABLE(routes),
    .services = BB_TABLE(services),
    .channels = BB_TABLE(channels),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .commands = BB_TABLE(commands),
    .open = auth_open,
    .start = auth_start,
    .close = auth_close,
    .metrics = BB_TABLE(metrics),
    .wants = BB_TABLE(wants),
    .flags = BB_MODULE_SEALS,
};
