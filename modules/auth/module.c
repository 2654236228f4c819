/* Accounts, tokens, roles: everything that this module brings. */
#include "modules/auth/module.h"

#include "modules/auth/api/api.h"

#include "modules/auth/schema.h"

static const char *const role_names[] = {"Admin", "OrganizationAdmin", "DeviceOwner", "Buyer",
                                         "User",  "ApiUser",           NULL};
static const char *const states[] = {"Pending", "Active", "Suspended", "Deleted", NULL};
static const char *const types[] = {"Developer", "Buyer", "ApiUser", NULL};

/* ---- fields ------------------------------------------------------------------------------- */

#define TEXT(field, least, most, bits)                                                             \
    {                                                                                              \
        .name = (field), .type = BB_TEXT, .flags = (bits), .min = (least), .max = (most)           \
    }
#define NEW_PASSWORD(field)                                                                        \
    {                                                                                              \
        .name = (field), .type = BB_TEXT, .flags = BB_REQUIRED | BB_SECRET, .min = 8, .max = 256,  \
        .help = "The new password."                                                                \
    }
#define PASSWORD(field, bits)                                                                      \
    {                                                                                              \
        .name = (field), .type = BB_TEXT, .flags = BB_SECRET | (bits), .min = 1, .max = 256        \
    }
/* Any text: what is no known pair is 401, of whatever form it is. */
#define USERNAME(bits)                                                                             \
    {                                                                                              \
        .name = "username", .type = BB_TEXT, .flags = BB_VERBATIM | (bits), .alias = "email",      \
        .help = "The account's e-mail."                                                            \
    }
#define TRIED_PASSWORD(field, bits, other)                                                         \
    {                                                                                              \
        .name = (field), .type = BB_TEXT, .flags = BB_SECRET | BB_VERBATIM | (bits),               \
        .alias = (other)                                                                           \
    }
#define NUMBER(field)                                                                              \
    {                                                                                              \
        .name = (field), .type = BB_INT                                                            \
    }
#define TIME(field)                                                                                \
    {                                                                                              \
        .name = (field), .type = BB_TIME                                                           \
    }

static const struct bb_field id_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .flags = BB_REQUIRED},
};

#define PAGE                                                                                       \
    {.name = "limit",                                                                              \
     .type = BB_INT,                                                                               \
     .min = 1,                                                                                     \
     .max = AUTH_PAGE_MAX,                                                                         \
     .help = "How many at most; the header Link names the next page."},                            \
    {                                                                                              \
        .name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX,                               \
        .help = "The id that the page begins behind."                                              \
    }

static const struct bb_field page_query[] = {PAGE};
static const struct bb_field user_query[] = {
    PAGE,
    {.name = "status", .type = BB_CHOICE, .choices = states, .help = "Only those in this state."},
};

static const struct bb_field register_body[] = {
    TEXT("firstName", 1, 100, BB_REQUIRED | BB_NOT_BLANK | BB_NAME),
    TEXT("lastName", 1, 100, BB_REQUIRED | BB_NOT_BLANK | BB_NAME),
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED | BB_NFKC},
    NEW_PASSWORD("password"),
    TEXT("orgName", 1, 255, BB_REQUIRED | BB_NOT_BLANK | BB_NAME),
    {.name = "organizationType",
     .type = BB_CHOICE,
     .flags = BB_NULLABLE,
     .choices = types,
     .help = "Developer (the default) becomes an OrganizationAdmin, Buyer and ApiUser themselves."},
};
static const struct bb_field login_body[] = {
    USERNAME(BB_REQUIRED),
    TRIED_PASSWORD("password", BB_REQUIRED, NULL),
};
static const struct bb_field password_body[] = {
    PASSWORD("current", BB_REQUIRED),
    NEW_PASSWORD("new"),
};
static const struct bb_field access_body[] = {
    USERNAME(BB_EMPTY),
    TRIED_PASSWORD("password", 0, NULL),
    {.name = "grant_type", .type = BB_TEXT, .max = 64, .alias = "grantType"},
    {.name = "client_id", .type = BB_TEXT, .max = 64, .alias = "clientId"},
    TRIED_PASSWORD("client_secret", 0, "clientSecret"),
    {.name = "scope", .type = BB_TEXT, .max = 1000, .help = "Accepted, and of no effect."},
};
static const struct bb_field client_body[] = {
    {.name = "name",
     .type = BB_TEXT,
     .flags = BB_NULLABLE | BB_NAME,
     .max = 100,
     .help = "For the list."},
};
static const struct bb_field organisation_body[] = {
    TEXT("name", 1, 255, BB_REQUIRED | BB_NOT_BLANK | BB_NAME),
    TEXT("address", 0, 1000, BB_NULLABLE),
};
static const struct bb_field link_body[] = {
    {.name = "apiUserId",
     .type = BB_INT,
     .min = 0,
     .max = INT64_MAX,
     .flags = BB_REQUIRED,
     .help = "The ApiUser that acts for the organisation; 0 unlinks."},
};
static const struct bb_field user_body[] = {
    TEXT("firstName", 1, 100, BB_NULLABLE | BB_NOT_BLANK | BB_NAME),
    TEXT("lastName", 1, 100, BB_NULLABLE | BB_NOT_BLANK | BB_NAME),
    {.name = "email", .type = BB_EMAIL, .flags = BB_NULLABLE | BB_NFKC},
    {.name = "status", .type = BB_CHOICE, .flags = BB_NULLABLE, .choices = states},
    {.name = "role", .type = BB_CHOICE, .flags = BB_NULLABLE, .choices = role_names},
};

/* ---- replies ------------------------------------------------------------------------------ */

#define ACCOUNT                                                                                    \
    NUMBER("id"), {.name = "email", .type = BB_EMAIL}, TEXT("firstName", 0, 0, 0),                 \
        TEXT("lastName", 0, 0, 0), {.name = "role", .type = BB_CHOICE, .choices = role_names},     \
        {.name = "status", .type = BB_CHOICE, .choices = states},                                  \
        {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE}, TIME("createdAt")

static const struct bb_field account_reply[] = {ACCOUNT};
static const struct bb_field change_reply[] = {
    ACCOUNT,
    {.name = "conversations",
     .type = BB_INT,
     .help = "Where the account has just been approved, or got another e-mail: in how many "
             "conversations that takes part already."},
};
static const struct bb_field number_item[] = {NUMBER("id")};
static const struct bb_field me_reply[] = {
    ACCOUNT,
    {.name = "organizationIds", .type = BB_LIST, .fields = BB_TABLE(number_item)},
};
static const struct bb_field message_reply[] = {TEXT("message", 0, 0, 0)};
static const struct bb_field rotate_reply[] = {TEXT("message", 0, 0, 0), TEXT("kid", 0, 0, 0)};
static const struct bb_field success_reply[] = {{.name = "success", .type = BB_BOOL}};
static const struct bb_field access_reply[] = {
    TEXT("accessToken", 0, 0, 0),
    TEXT("access_token", 0, 0, 0),
    TEXT("token_type", 0, 0, 0),
    NUMBER("expires_in"),
    TIME("expiresAt"),
};
static const struct bb_field client_reply[] = {
    NUMBER("id"),          TEXT("client_id", 0, 0, 0), TEXT("client_secret", 0, 0, 0),
    TEXT("name", 0, 0, 0), TIME("createdAt"),
};
static const struct bb_field organisation_reply[] = {
    NUMBER("id"),
    TEXT("name", 0, 0, 0),
    TEXT("type", 0, 0, 0),
    TEXT("address", 0, 0, BB_NULLABLE),
    {.name = "apiUserId", .type = BB_INT, .flags = BB_NULLABLE},
    TIME("createdAt"),
};

/* ---- routes ------------------------------------------------------------------------------- */

enum {
    PUBLIC_BODY_MAX = 32768, /* nobody who is unknown yet has much to say */
    HASH_DEADLINE_MS = 20000 /* a crowd of passwords, where the processor is taken by others */
};

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/api/user/register",
     .roles = BB_ANYONE,
     .handler = auth_register,
     .body = BB_TABLE(register_body),
     .body_max = PUBLIC_BODY_MAX,
     .reply = BB_TABLE(account_reply),
     .flags = BB_CREATES,
     .success = 201,
     .help = "Asks for an account; an Admin approves it."},
    {.method = "PUT",
     .path = "/api/user/password",
     .roles = BB_ANY_ROLE,
     .handler = auth_change_password,
     .body = BB_TABLE(password_body),
     .reply = BB_TABLE(message_reply),
     .help = "Changes the own password and ends the other sessions."},
    {.method = "POST",
     .path = "/api/auth/login",
     .roles = BB_ANYONE,
     .handler = auth_login,
     .body = BB_TABLE(login_body),
     .body_max = PUBLIC_BODY_MAX,
     .deadline_ms = HASH_DEADLINE_MS,
     .reply = BB_TABLE(access_reply),
     .help = "Begins a session."},
    {.method = "POST",
     .path = "/api/auth/logout",
     .roles = BB_ANY_ROLE,
     .handler = auth_logout,
     .reply = BB_TABLE(message_reply),
     .flags = BB_NO_BODY,
     .help = "Ends the session of the token."},
    {.method = "GET",
     .path = "/api/auth/me",
     .roles = BB_ANY_ROLE,
     .handler = auth_me,
     .reply = BB_TABLE(me_reply),
     .help = "The own account."},
    {.method = "POST",
     .path = "/api/auth/getAccess",
     .roles = BB_ANYONE,
     .handler = auth_get_access,
     .body = BB_TABLE(access_body),
     .body_max = PUBLIC_BODY_MAX,
     .deadline_ms = HASH_DEADLINE_MS,
     .reply = BB_TABLE(access_reply),
     .flags = BB_NO_BODY | BB_FORM_TOO | BB_OAUTH_ERRORS,
     .help = "A token for a program: OAuth 2.0 client credentials, or an ApiUser's password."},
    {.method = "POST",
     .path = "/api/auth/clients",
     .roles = BB_ROLE_API_USER,
     .handler = auth_client_create,
     .body = BB_TABLE(client_body),
     .reply = BB_TABLE(client_reply),
     .flags = BB_CREATES | BB_NO_BODY,
     .success = 201,
     .help = "A new API client; its secret is shown this once."},
    {.method = "GET",
     .path = "/api/auth/clients",
     .roles = BB_ROLE_API_USER,
     .handler = auth_client_list,
     .query = BB_TABLE(page_query),
     .help = "The own API clients."},
    {.method = "DELETE",
     .path = "/api/auth/clients/:id",
     .roles = BB_ROLE_API_USER,
     .handler = auth_client_delete,
     .segments = BB_TABLE(id_segment),
     .reply = BB_TABLE(success_reply),
     .flags = BB_NO_BODY,
     .help = "Takes an API client away and revokes its tokens."},
    {.method = "POST",
     .path = "/api/organization",
     .roles = BB_ROLE_API_USER,
     .handler = auth_organisation_create,
     .body = BB_TABLE(organisation_body),
     .reply = BB_TABLE(organisation_reply),
     .flags = BB_CREATES,
     .success = 201,
     .help = "A new organisation that the ApiUser acts for."},
    {.method = "GET",
     .path = "/api/admin/organizations",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_organisation_list,
     .query = BB_TABLE(page_query),
     .help = "All organisations."},
    {.method = "PUT",
     .path = "/api/admin/organizations/:id",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_organisation_link,
     .segments = BB_TABLE(id_segment),
     .body = BB_TABLE(link_body),
     .reply = BB_TABLE(organisation_reply),
     .help = "Links an organisation to the ApiUser that acts for it."},
    {.method = "GET",
     .path = "/api/admin/users",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_user_list,
     .query = BB_TABLE(user_query),
     .help = "All accounts."},
    {.method = "GET",
     .path = "/api/admin/users/:id",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_user_get,
     .segments = BB_TABLE(id_segment),
     .reply = BB_TABLE(account_reply),
     .help = "One account."},
    {.method = "PUT",
     .path = "/api/admin/users/:id",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_user_change,
     .segments = BB_TABLE(id_segment),
     .body = BB_TABLE(user_body),
     .reply = BB_TABLE(change_reply),
     .help = "Approves, suspends, or changes an account."},
    {.method = "POST",
     .path = "/api/admin/rotate-secret",
     .roles = BB_ROLE_ADMIN,
     .handler = auth_rotate,
     .reply = BB_TABLE(rotate_reply),
     .flags = BB_NO_BODY,
     .help = "A new signing key: revokes every token, the caller's too."},
};

/* ---- settings ----------------------------------------------------------------------------- */

#define SETTING(key, least, most, preset, text)                                                    \
    {                                                                                              \
        .name = (key), .type = BB_INT, .min = (least), .max = (most), .fallback = (preset),        \
        .help = (text)                                                                             \
    }

static const struct bb_field settings[] = {
    SETTING("session_days", 1, 365, "7", "Life of a login's token, days."),
    SETTING("client_minutes", 1, 10080, "60", "Life of an API client's token, minutes."),
    SETTING("login_failures_per_account", 1, 1000000, "10",
            "Failed logins to one account from one address in the window; ten times as many from "
            "everywhere."),
    SETTING("login_failures_per_address", 1, 1000000, "50",
            "Failed logins from one address in the window, for accounts that have never logged in "
            "from it."),
    SETTING("login_window", 1, 86400, "60", "The window, seconds from the first failure."),
    SETTING("registrations_per_address", 1, 1000000, "20",
            "Registrations from one address in the window."),
    SETTING("pending_days", 1, 3650, "30",
            "After so many days accounts are deleted that nobody has approved."),
    {.name = "register_silent",
     .type = BB_BOOL,
     .fallback = "false",
     .help = "Whether registration always answers 202, so that nobody learns which e-mails exist."},
    SETTING("argon2_rounds", 1, 64, "2", "Passes of argon2id."),
    SETTING("argon2_memory", 64, 1048576, "19456", "Memory of one password hash, KiB."),
    SETTING("argon2_lanes", 1, 16, "1", "Lanes of argon2id."),
    SETTING("cache_entries", 0, 1048576, "16384",
            "Tokens whose principal is kept in memory; 0 asks PostgreSQL every time."),
};

/* ---- the rest ----------------------------------------------------------------------------- */

static const struct bb_service_face services[] = {
    {.name = "authenticator", .version = 1, .interface = &auth_authenticator},
    {.name = "accounts", .version = 4, .interface = &auth_accounts},
};

static const struct bb_need wants[] = {{"conversations", 1}};

static const struct bb_channel channels[] = {{.name = AUTH_CHANNEL, .heard = auth_heard}};

static const struct bb_job jobs[] = {
    {.name = "auth.cleanup", .every_s = 3600, .flags = BB_ONCE, .run = auth_cleanup},
};

static const char *const login_outcomes[] = {"done",      "refused", "not_admitted",
                                             "throttled", "failed",  NULL};

/* In the order of enum auth_metric and enum auth_login_outcome. */
static const struct bb_metric metrics[] = {
    {.name = "logins_total",
     .kind = BB_COUNTER,
     .label = "outcome",
     .values = login_outcomes,
     .help = "Logins and getAccess; not_admitted: pending, suspended or of another role; failed: "
             "for a reason of the service's own."},
};

static const struct bb_pool pools[] = {
    {.name = "hash", .threads = 2, .queue = 384, .nice = 10},
    {.name = "register", .threads = 1, .queue = 64, .nice = 10},
};

static const struct bb_field user_add_options[] = {
    {.name = "email",
     .type = BB_EMAIL,
     .flags = BB_REQUIRED | BB_NFKC,
     .help = "The account's e-mail."},
    NEW_PASSWORD("password"),
    {.name = "role",
     .type = BB_CHOICE,
     .choices = role_names,
     .fallback = "Admin",
     .help = "The account's role."},
    {.name = "first-name", .type = BB_TEXT, .flags = BB_NAME, .max = 100, .help = "First name."},
    {.name = "last-name", .type = BB_TEXT, .flags = BB_NAME, .max = 100, .help = "Last name."},
    {.name = "organization",
     .type = BB_TEXT,
     .flags = BB_NOT_BLANK,
     .min = 1,
     .max = 255,
     .help = "The organisation's name; made if it is not there."},
    {.name = "if-absent",
     .type = BB_BOOL,
     .help = "Succeed without a change when the account is there already."},
};

static const struct bb_command commands[] = {
    {.name = "user add",
     .options = BB_TABLE(user_add_options),
     .run = auth_command_user_add,
     .help = "Adds an active account."},
    {.name = "rotate-secret",
     .run = auth_command_rotate,
     .help = "Replaces the signing key: revokes every token on all hosts."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("auth", "1.0.0"),
    .schema = auth_schema,
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .services = BB_TABLE(services),
    .channels = BB_TABLE(channels),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .commands = BB_TABLE(commands),
    .open = auth_open,
    .close = auth_close,
    .metrics = BB_TABLE(metrics),
    .wants = BB_TABLE(wants),
    .flags = BB_MODULE_SEALS,
};
