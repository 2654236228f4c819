/*
 * The check of the role, for every route of every module with every role and
 * kind of caller, compared with the table in matrix.h. The routes are read from the modules
 * themselves, so a route that is not in the table fails. A refused request changes nothing in the
 * database.
 *
 * Requests have no body, so a permitted caller gets a 400 if a field is required; ids do not exist,
 * so a permitted caller gets a 404 if one is looked up; e-mails in a path are the caller's own.
 */
#include "matrix.h"
#include "stage.h"

static const char *const modules[] = {"audit",  "auth",    "bulk",   "certificate",
                                      "chat",   "console", "device", "docs",
                                      "health", "reading", "webhook"};
static const char *const names[ACTORS] = {"nobody", "pending",     "suspended",         "User",
                                          "Buyer",  "DeviceOwner", "OrganizationAdmin", "ApiUser",
                                          "client", "Admin"};

static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = "matrix",
        .modules = "[audit, auth, chat, device, health, webhook, "
                   "reading, certificate, bulk, console, docs]",
        .more = text("bulk:\n  files: \"%s\"\nconsole:\n  pages: \"%s\"\ndocs:\n  pages: \"%s\"\n",
                     harness_path("bulk-matrix"), harness_path("console-matrix"),
                     harness_path("docs-matrix"))});
    ck_prints(host, 0, "", "pause"); /* otherwise jobs, too, change the database */
    host_logs(host, 0, "are paused");
}

/* ---- the table of roles is complete ---- */

static bool in_table(const char *method, const char *path)
{
    for (size_t i = 0; i < COUNT(matrix); i++) {
        if (!strcmp(matrix[i].method, method) && !strcmp(matrix[i].path, path))
            return true;
    }
    return false;
}

TEST(the_access_matrix_has_exactly_the_routes_of_the_modules)
{
    size_t routes = 0;

    for (size_t i = 0; i < COUNT(modules); i++) {
        const char *file = text("%s/%s.so", harness_modules(false), modules[i]);
        json_t *module = json_loads(host_says(host, 0, "inspect", "--json", file), 0, NULL);
        const json_t *listed = json_object_get(module, "routes");

        routes += json_array_size(listed);
        for (size_t j = 0; j < json_array_size(listed); j++) {
            const json_t *route = json_array_get(listed, j);
            const char *method = json_string_value(json_object_get(route, "method"));
            const char *path = json_string_value(json_object_get(route, "path"));

            ck_assert_msg(in_table(method, path), "%s %s of %s is not in matrix.h", method, path,
                          modules[i]);
        }
    }
    ck_assert_uint_eq(routes, COUNT(matrix));
}

/* ---- the callers ---- */

static struct person *people[ACTORS];

static const char *client_token(const struct person *user)
{
    struct answer *client = ask(user, 201, NULL, "POST /api/auth/clients");
    json_t *grant = json_pack("{ss ss ss}", "grant_type", "client_credentials", "client_id",
                              answer_text(client, "client_id"), "client_secret",
                              answer_text(client, "client_secret"));

    return answer_text(ck_status(http(host, "POST", "/api/auth/getAccess", NULL, grant), 200),
                       "access_token");
}

/* Pending and suspended people keep a token from before their status changed. */
static void make_people(void)
{
    people[NOBODY] = kept(calloc(1, sizeof *people[NOBODY]));
    people[NOBODY]->email = text("%s", "nobody@example.com");
    for (int i = PENDING; i <= API_USER; i++)
        people[i] = i <= SUSPENDED
                        ? person_make(host, admin, names[i], NULL)
                        : person_with_role(host, admin, text("as-%s", names[i]), names[i]);
    people[CLIENT] = kept(malloc(sizeof *people[CLIENT]));
    *people[CLIENT] = *people[API_USER];
    people[CLIENT]->token = text("%s", client_token(people[API_USER]));
    people[ADMIN] = admin;
    ck_status(person_change(host, admin, people[PENDING], "status", "Pending"), 200);
    ck_status(person_change(host, admin, people[SUSPENDED], "status", "Suspended"), 200);
}

/* After a request that ends a session, makes a new one for this caller. */
static void renew(int actor)
{
    if (actor == CLIENT)
        people[CLIENT]->token = text("%s", client_token(people[API_USER]));
    else if (actor > SUSPENDED)
        person_login(host, people[actor]);
}

/* ---- the requests ---- */

static const char *path_for(const char *route, const struct person *person)
{
    const char *at = strchr(route, ':');

    if (!at)
        return route;
    const char *rest = at + strcspn(at, "/"), *value = "999999999";

    if (!strncmp(at, ":email", 6))
        value = encoded(person->email);
    if (!strncmp(at, ":headUuid", 9) || !strncmp(at, ":documentId", 11) ||
        !strncmp(at, ":attachmentId", 13) || !strncmp(at, ":bulkUploadId", 13))
        value = "0195f3a0-1111-7222-8333-444455556666";
    return path_for(text("%.*s%s%s", (int)(at - route), route, value, rest), person);
}

/* Returns a digest of each table that a request might change, except the audit log, which also
 * records refused requests, and the tables that a host's heartbeat changes: its own row and the
 * cursors of its shards, which move past the events of earlier requests. */
static const char *content(void)
{
    return sql_text(
        db,
        "SELECT string_agg(tablename || ' ' || md5(query_to_xml('SELECT * FROM ' || "
        "tablename || ' ORDER BY 1', true, false, '')::text), E'\\n' ORDER BY tablename) "
        "FROM pg_tables WHERE schemaname = 'public' "
        "AND tablename NOT IN ('webhook_host', 'webhook_shard') "
        "AND tablename NOT LIKE 'audit_%'",
        0, NULL);
}

static const char *message_of(int actor, long status)
{
    if (status == 401)
        return "Unauthorized";
    if (status != 403)
        return "";
    return actor == PENDING     ? "Your account is pending approval"
           : actor == SUSPENDED ? "Your account has been suspended"
                                : "Forbidden";
}

static void try_cell(const struct matrix_row *row, int actor)
{
    static const char *const headers[] = {"Last-Event-ID: none", NULL}; /* ends the stream */
    struct answer *answer =
        http_send(host, &(struct call){.method = row->method,
                                       .path = path_for(row->path, people[actor]),
                                       .token = people[actor]->token,
                                       .headers = headers});

    ck_assert_msg(answer->status == row->status[actor], "%s %s as %s: %ld instead of %d: %.300s",
                  row->method, row->path, names[actor], answer->status, row->status[actor],
                  answer->body);
    if (answer->status < 400) {
        if (strstr(row->path, "/logout") || strstr(row->path, "/rotate-secret"))
            renew(actor);
        return;
    }
    ck_error(answer, answer->status, message_of(actor, answer->status));
}

/* Sends the requests of all callers that are refused, or of all that are permitted. */
static void try_row(const struct matrix_row *row, bool permitted)
{
    for (int actor = 0; actor < ACTORS; actor++) {
        if ((row->status[actor] < 400) == permitted)
            try_cell(row, actor);
    }
}

/* Sends the requests of refused callers first, and checks the database after every few routes. */
TEST(every_route_and_role_gets_the_status_of_the_access_matrix)
{
    enum { ROWS = 8 };

    make_people();
    const char *before = content();

    for (size_t i = 0; i < COUNT(matrix); i++) {
        try_row(&matrix[i], false);
        if ((i + 1) % ROWS && i + 1 < COUNT(matrix))
            continue;
        const char *after = content(), *first = matrix[i - i % ROWS].path;

        ck_assert_msg(!strcmp(before, after),
                      "a refused request from %s to %s %s changed something:\n%s\n%s", first,
                      matrix[i].method, matrix[i].path, before, after);
    }
    for (size_t i = 0; i < COUNT(matrix); i++)
        try_row(&matrix[i], true);
    ck_assert(host_alive(host));
}

STAGE_SUITE(matrix, set_up, 120)
