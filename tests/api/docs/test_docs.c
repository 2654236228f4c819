/*
 * The module docs: the reference covers the loaded modules, its page has a policy that excludes
 * other origins, and no path leads to other files.
 */
#include <sys/stat.h>

#include "exchange.h"
#include "matrix.h"
#include "reference.h"
#include "schema.h"
#include "talk.h"
#include "wire.h"

#define SCRIPT "app-0123abcd.js"

static const char *database;
static struct host_spec spec;
static struct host *host;

/* Makes a small version of the pages that scripts/make-web builds. */
static const char *make_pages(const char *name)
{
    const char *directory = harness_path(name);

    ck_assert_int_eq(mkdir(directory, 0755), 0);
    ck_assert_int_eq(mkdir(text("%s/assets", directory), 0755), 0);
    file_write(text("%s/index.html", directory), "<!doctype html><title>a page</title>");
    file_write(text("%s/index.html.gz", directory), "a page, by gzip");
    file_write(text("%s/assets/" SCRIPT, directory), "'a script'");
    file_write(text("%s/assets/" SCRIPT ".gz", directory), "a script, by gzip");
    file_write(text("%s/assets/" SCRIPT ".br", directory), "a script, by brotli");
    return directory;
}

static void set_up(void)
{
    database = database_make(the_postgres, "docs");
    const char *pages = make_pages("docs-pages");

    file_write(harness_path("docs-outside.txt"), "outside of the pages");
    spec = (struct host_spec){
        .name = "docs",
        .auth = "  link: \"http://a.example/{token}\"\n",
        .database = database,
        .modules = "[audit, auth, bulk, certificate, chat, console, device, docs, health, reading, "
                   "webhook]",
        .more = text("docs:\n  pages: \"%s\"\n  title: Our plants\nbulk:\n  files: "
                     "\"%s\"\nconsole:\n  pages: \"%s\"\n  grafana: \"http://g.example\"\n"
                     "  help: \"https://h.example\"\n  contact: \"mailto:a@b.example\"\n",
                     pages, harness_path("docs-bulk"), pages),
    };
    host = host_start(&spec);
}

static struct answer *get(const char *path)
{
    return http(host, "GET", path, NULL, NULL);
}

static struct answer *get_as(const char *path, const char *header)
{
    const char *headers[] = {header, NULL};

    return http_send(host, &(struct call){.method = "GET", .path = path, .headers = headers});
}

/* ---- the document ---- */

/* Writes "/api/device/:id" in the document's form. */
static char *in_braces(const char *path)
{
    char *out = calloc(2, strlen(path) + 1), *to = out;
    bool inside = false;

    for (; *path; path++) {
        if (inside && *path == '/') {
            *to++ = '}';
            inside = false;
        }
        *to++ = *path == ':' ? '{' : *path;
        inside |= *path == ':';
    }
    if (inside)
        *to++ = '}';
    return kept(out);
}

static char *small(const char *method)
{
    char *out = kept(strdup(method));

    for (char *c = out; *c; c++)
        *c = (char)(*c | 0x20);
    return out;
}

static json_t *operation(const json_t *document, const char *method, const char *path)
{
    const json_t *item = json_object_get(json_object_get(document, "paths"), in_braces(path));

    return json_object_get(item, small(method));
}

static size_t operations(const json_t *document)
{
    const char *path;
    json_t *item;
    size_t count = 0;

    json_object_foreach (json_object_get(document, "paths"), path, item) {
        count += json_object_size(item);
    }
    return count;
}

/* Pages and their files are for browsers. */
static bool is_page(const char *path)
{
    EACH_TEXT (page, "/", "/console", "/console/assets/:file", "/swagger", "/swagger/assets/:file")
        if (!strcmp(page, path))
            return true;
    return false;
}

/* Every route of the API is documented, and every open route is documented as open. */
TEST(the_document_has_exactly_the_routes_as_operations)
{
    size_t count = 0;
    const json_t *document = ck_status(get("/swagger-json"), 200)->json;

    for (size_t i = 0; i < COUNT(matrix); i++) {
        const json_t *found = operation(document, matrix[i].method, matrix[i].path);
        bool open = matrix[i].status[NOBODY] != 401;

        if (is_page(matrix[i].path))
            continue;
        count++;
        ck_assert_msg(found != NULL, "%s %s is not an operation", matrix[i].method, matrix[i].path);
        ck_assert_msg(open == (json_array_size(json_object_get(found, "security")) == 0), "%s %s",
                      matrix[i].method, matrix[i].path);
    }
    ck_assert_uint_eq(operations(document), count);
}

#define SCHEMA "{'responses':{'200':{'content':{'application/json':{'schema':%s}}}}}"
#define DEVICE "{'$ref':'#/components/schemas/Device'}"

TEST(the_document_names_objects_gives_examples_and_marks_older_paths)
{
    const json_t *document = ck_status(get("/swagger-json"), 200)->json;

    expect_json(operation(document, "GET", "/api/device/:externalId"), text(SCHEMA, DEVICE));
    expect_json(operation(document, "GET", "/api/device"), text(SCHEMA, "{'items':" DEVICE "}"));
    expect_json(document,
                "{'components':{'schemas':{'Device':{'properties':{'documents':"
                "{'items':{'$ref':'#/components/schemas/Document'}}}},"
                "'NewConversation':{'properties':{'participant1':{'format':'email'}}}}}}");
    expect_json(operation(document, "POST", "/api/meter-reads/new/:externalId"),
                "{'requestBody':{'content':{'application/json':{'example':{'type':'Delta','reads':"
                "[{'value':31.4}]}}}}}");
    expect_json(operation(document, "POST", "/api/chat/conversations/find"),
                text(SCHEMA, "{'anyOf':[{'$ref':'*/Conversation'},{'type':'null'}]}"));
    expect_json(
        operation(document, "GET", "/api/reference/countries"),
        "{'responses':{'200':{'content':{'application/json':{'example':[{'alpha2':'DE'}]}}}}}");
    expect_json(operation(document, "GET", "/api/device/my"), "{'deprecated':true}");
    ck_assert_ptr_null(json_object_get(operation(document, "GET", "/api/device"), "deprecated"));
}

TEST(the_document_is_the_same_on_all_its_paths)
{
    struct answer *first = ck_status(get("/swagger-json"), 200);
    struct answer *second = ck_status(get("/openapi.json"), 200);
    struct answer *yaml = ck_status(get("/openapi.yaml"), 200);

    ASSERT_SAME_TEXT(first->body, second->body);
    ck_assert_str_eq(
        json_string_value(json_object_get(json_object_get(first->json, "info"), "title")),
        "Our plants");
    ck_assert_ptr_eq(strstr(yaml->body,
                            "\"openapi\": \"3.1.0\"\n\"info\":\n  \"title\": \"Our plants\""
                            "\n  \"version\": \"1.0.0\"\n"),
                     yaml->body);
    ck_assert_ptr_nonnull(
        strstr(yaml->body, "\n\"tags\":\n  -\n    \"name\": \"Audit log\"\n    \"x-m"));
    ck_assert_ptr_nonnull(strstr(yaml->body, "\n      \"security\": []\n"));
    ck_assert_str_eq(answer_header(yaml, "Content-Type"), "application/yaml");
    ck_assert_ptr_nonnull(json_object_get(json_object_get(first->json, "webhooks"), "message.new"));
}

TEST(a_matching_etag_gets_304)
{
    static const char *const paths[] = {
        "/swagger-json", "/openapi.json",           "/openapi.yaml",          "/swagger",
        "/console",      "/swagger/assets/" SCRIPT, "/console/assets/" SCRIPT};

    for (size_t i = 0; i < COUNT(paths); i++) {
        const char *tag = answer_header(ck_status(get(paths[i]), 200), "ETag");
        struct answer *again = get_as(paths[i], text("If-None-Match: %s", tag));

        ck_assert_msg(again->status == 304 && !again->length, "%s: %ld", paths[i], again->status);
        ck_assert_str_eq(answer_header(again, "ETag"), tag);
        ck_status(get_as(paths[i], "If-None-Match: \"another\""), 200);

        /* any version; a weak tag; a list in two lines */
        const char *lines[] = {"If-None-Match: \"another\"", text("If-None-Match: W/%s", tag),
                               NULL};

        ck_status(get_as(paths[i], "If-None-Match: *"), 304);
        ck_status(get_as(paths[i], lines[1]), 304);
        ck_status(
            http_send(host, &(struct call){.method = "GET", .path = paths[i], .headers = lines}),
            304);
    }
}

static void ck_says(const json_t *document, const char *method, const char *path, const char *part)
{
    const char *said =
        json_string_value(json_object_get(operation(document, method, path), "description"));

    ck_assert_msg(strstr(said, part) != NULL, "%s", said);
}

/* The operation that receives files of rows, and the one that returns their templates. */
TEST(the_document_has_the_columns_of_bulk_uploads)
{
    const json_t *document = ck_status(get("/swagger-json"), 200)->json;
    static const char *const routes[][2] = {{"POST", "/api/bulk-upload"},
                                            {"GET", "/api/bulk-upload/template.csv"}};

    for (size_t i = 0; i < COUNT(routes); i++) {
        ck_says(document, routes[i][0], routes[i][1], "**Columns of type Devices:** Devices to");
        ck_says(document, routes[i][0], routes[i][1],
                "\n| `siteName` or `projectName` | no | Name of the site. |\n");
        ck_says(document, routes[i][0], routes[i][1], "**Columns of type Reads:** Meter readings");
        ck_says(document, routes[i][0], routes[i][1], "\n| `value` | yes | The energy in `unit`");
    }
    ck_assert_ptr_null(strstr(json_string_value(json_object_get(
                                  operation(document, "GET", "/api/bulk-upload"), "description")),
                              "Columns"));
}

#define EVERYWHERE "X-Request-Id X-Ignored-Parameters" /* headers of every success */

/* Describes an operation: the id and the parameters | the types of the body, and the required parts
 * | the statuses | the headers of the success, and its types. `!` marks what is required. */
static const char *shape_of(const char *method, const char *path)
{
    const json_t *document = reference_document(), *about = operation(document, method, path);
    const json_t *body = json_object_get(about, "requestBody"), *each, *part;
    const json_t *content = json_object_get(body, "content");
    const json_t *form = json_object_get(json_object_get(content, "multipart/form-data"), "schema");
    json_t *answers = json_object_get(about, "responses");
    const json_t *success = json_object_iter_value(json_object_iter(answers));
    const char *shape = json_string_value(json_object_get(about, "operationId"));
    size_t i;

    json_array_foreach (json_object_get(about, "parameters"), i, each) {
        part = schema_resolved(document, each);
        shape = text("%s %s%s", shape, json_string_value(json_object_get(part, "name")),
                     json_is_true(json_object_get(part, "required")) ? "!" : "");
    }
    shape = text("%s | %s%s", shape, keys_of(content),
                 json_is_true(json_object_get(body, "required")) ? "!" : "");
    json_array_foreach (json_object_get(schema_resolved(document, form), "required"), i, each)
        shape = text("%s %s", shape, json_string_value(each));
    return text("%s | %s |%s | %s", shape, keys_of(answers),
                keys_of(json_object_get(success, "headers")) + strlen(EVERYWHERE),
                keys_of(json_object_get(success, "content")));
}

TEST(the_document_describes_bodies_statuses_and_headers)
{
    static const char *const rows[][3] = {
        {"GET", "/swagger-json",
         "getSwaggerJson |  | 200 304 400 429 500 503 | ETag | application/json"},
        {"GET", "/api/bulk-upload/template.csv",
         "getBulkUploadTemplateCsv type |  | 200 400 401 403 429 500 503 | Content-Disposition | "
         "text/csv"},
        {"PATCH", "/api/device/:externalId",
         "patchDeviceByExternalId externalId! organizationId If-Match | application/json "
         "multipart/form-data | 200 400 401 403 404 408 409 412 413 415 429 500 503 | ETag | "
         "application/json"},
        {"POST", "/api/chat/conversations/:id/attachments",
         "postChatConversationsByIdAttachments id! Idempotency-Key | multipart/form-data! message "
         "files | 201 400 401 403 404 408 409 413 415 422 429 500 503 | Idempotency-Replayed | "
         "application/json"},
        {"POST", "/api/bulk-upload",
         "postBulkUpload type organizationId Idempotency-Key | multipart/form-data file | 201 400 "
         "401 403 404 408 409 413 415 422 429 500 503 | Idempotency-Replayed | application/json"},
        {"POST", "/api/chat/conversations/:id/typing",
         "postChatConversationsByIdTyping id! | application/json! | 204 400 401 403 404 408 413 "
         "415 429 500 503 | | "},
        {"POST", "/api/auth/getAccess",
         "postAuthGetAccess | application/x-www-form-urlencoded application/json | 200 400 401 403 "
         "408 413 415 429 500 503 | | application/json"},
        {"POST", "/api/user/register",
         "postUserRegister Idempotency-Key | application/json! | 201 202 400 408 409 413 415 429 "
         "500 503 | Idempotency-Replayed | application/json"},
        {"GET", "/api/chat/search",
         "getChatSearch q! limit after mine conversationId organizationId |  | 200 400 401 403 429 "
         "500 503 | Link | application/json"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_str_eq(shape_of(rows[i][0], rows[i][1]), rows[i][2]);
}

TEST(the_document_describes_operations_and_roles)
{
    static const char *const rows[][4] = {
        {"POST", "/api/device", "Register a device",
         "Send JSON, or multipart/form-data to add documents.\\n\\n"
         "**Required role:** OrganizationAdmin, ApiUser."},
        {"DELETE", "/api/auth/sessions/:id", "End one of your sessions",
         "Its tokens are revoked.\\n\\n**Required role:** any."},
        {"GET", "/api/health/ready", "Check readiness",
         "503 while*\\n\\n**Required role:** none, and no token is needed."},
        {"GET", "/metrics", "Get metrics in Prometheus text format",
         "**Required role:** Admin; clients in the networks of `http.metrics_networks` need no "
         "token."},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_json(operation(reference_document(), rows[i][0], rows[i][1]),
                    text("{'summary':'%s','description':'%s'}", rows[i][2], rows[i][3]));
}

static void remove_descriptions(json_t *value)
{
    const char *key;
    json_t *part;
    size_t i;

    json_object_del(value, "description");
    json_object_foreach (value, key, part)
        remove_descriptions(part);
    json_array_foreach (value, i, part)
        remove_descriptions(part);
}

TEST(the_document_describes_fields)
{
    static const char *const rows[][2] = {
        {"OrganizationLink",
         "{'type':'object','properties':{'apiUserId':{'type':['integer','null'],'minimum':0,"
         "'examples':[3]}},'required':['apiUserId']}"},
        {"PasswordChange",
         "{'type':'object','properties':{'current':{'type':'string','format':'password',"
         "'minLength':1,'maxLength':256,'examples':['correct horse battery staple']},'new':{'type':"
         "'string','format':'password','minLength':8,'maxLength':256,'examples':["
         "'purple monkey dishwasher']}},'required':['current','new']}"},
        {"NewDeviceGroup",
         "{'type':'object','properties':{'name':{'type':'string','minLength':1,'maxLength':255,"
         "'examples':['Rooftops']},'deviceIds':{'type':'array','minItems':1,'maxItems':10000,"
         "'items':{},'examples':[['PLANT-7']]},'frequency':{'type':'string','enum':['hourly',"
         "'daily','weekly','monthly','quarterly','yearly'],'examples':['daily']},'start':{'type':"
         "'string','examples':['2026-01-01T00:00:00Z']},'end':{'type':['string','null']},"
         "'organizationId':{'type':['integer','null'],'minimum':1}},'required':['name',"
         "'deviceIds','frequency','start']}"},
    };
    const json_t *schemas =
        json_object_get(json_object_get(reference_document(), "components"), "schemas");

    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *schema = kept(json_deep_copy(json_object_get(schemas, rows[i][0])));

        remove_descriptions(schema);
        char *said = kept(json_dumps(schema, JSON_COMPACT));

        for (char *at = said; *at; at++)
            *at = (char)(*at == '"' ? '\'' : *at);
        ck_assert_str_eq(said, rows[i][1]);
    }
}

TEST(the_command_reference_prints_the_served_document)
{
    const char *document = harness_path("reference.json");
    const char *const argv[] = {harness_program(false), "-c", host->conf, "reference", NULL};
    const struct process_spec command = {
        .argv = argv, .log = harness_path("reference.log"), .output = document};

    ck_assert_int_eq(process_run(&command), 0);
    ASSERT_SAME_TEXT(file_text(document), text("%s\n", ck_status(get("/swagger-json"), 200)->body));
}

/* ---- the page ---- */

TEST(the_page_has_a_strict_content_security_policy)
{
    static const char *const headers[][2] = {
        {"Content-Type", "text/html; charset=utf-8"},
        {"Cache-Control", "no-cache"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Frame-Options", "DENY"},
    };
    struct answer *page = ck_status(get("/swagger?url=https://elsewhere.example/x.json"), 200);
    const char *policy = answer_header(page, "Content-Security-Policy");

    for (size_t i = 0; i < COUNT(headers); i++)
        ck_assert_str_eq(answer_header(page, headers[i][0]), headers[i][1]);
    ck_assert_ptr_nonnull(strstr(policy, "default-src 'self'"));
    ck_assert_ptr_nonnull(strstr(policy, "object-src 'none'"));
    ck_assert_ptr_nonnull(strstr(policy, "base-uri 'none'"));
    ck_assert_ptr_nonnull(strstr(policy, "frame-ancestors 'none'"));
    ck_assert_ptr_null(strstr(policy, "unsafe"));
    ck_assert_ptr_null(strstr(page->body, "elsewhere"));
}

TEST(assets_are_compressed_as_the_client_accepts)
{
    static const char *const rows[][3] = {
        {"Accept-Encoding: gzip, br", "br", "a script, by brotli"},
        {"Accept-Encoding: gzip", "gzip", "a script, by gzip"},
        {"Accept-Encoding: br;q=0, gzip;q=0.5", "gzip", "a script, by gzip"},
        {"Accept-Encoding: br;q=0.1, gzip", "gzip", "a script, by gzip"},
        {"Accept-Encoding: gzip;q=0.5, br;q=0.5", "br", "a script, by brotli"},
        {"Accept-Encoding: gzip; Q=0.5, identity", NULL, "'a script'"},
        {"Accept-Encoding: *", "br", "a script, by brotli"},
        {"Accept-Encoding: br;q=0, *;q=0.1", "gzip", "a script, by gzip"},
        {"Accept-Encoding: *;q=0", NULL, "'a script'"},
        {"Accept-Encoding: brotli, zip", NULL, "'a script'"},
        {"Accept-Encoding;", NULL, "'a script'"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct answer *file = ck_status(get_as("/swagger/assets/" SCRIPT, rows[i][0]), 200);
        const char *coding = answer_header(file, "Content-Encoding");

        ck_assert_pstr_eq(coding, rows[i][1]);
        ASSERT_SAME_TEXT(file->body, rows[i][2]);
        ck_assert_str_eq(answer_header(file, "Content-Type"), "text/javascript; charset=utf-8");
        ck_assert_ptr_nonnull(strstr(answer_header(file, "Cache-Control"), "immutable"));
        ck_assert_str_eq(answer_header(file, "Vary"), "Accept-Encoding");
    }
}

TEST_EACH(no_path_of_the_pages_leads_to_other_files, 2)
{
    const char *page = _i ? "/console" : "/swagger";

    EACH_TEXT (path, "assets/..%2findex.html", "assets/..%2f..%2fdocs-outside.txt",
               "assets/%2e%2e%2findex.html", "assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
               "assets/%252e%252e%252findex.html", "assets/..%5cindex.html", "assets/" SCRIPT ".br",
               "assets/index.html", "assets/nothing.js", "assets/%00", "assets/index.html%00.js",
               "assets/.", "assets/..", "assets/" SCRIPT "/", "../docs-outside.txt", "index.html") {
        struct wire_answer *answer =
            wire_ask(host, "GET %s/%s HTTP/1.1\r\nHost: x\r\n\r\n", page, path);
        bool script = path[strlen(path) - 1] == '/';

        ck_assert_msg(answer->status == (script ? 200 : 404) || answer->status == 400, "%s/%s: %d",
                      page, path, answer->status);
        ck_assert(!strstr(answer->body, "outside of") && !strstr(answer->body, "a page"));
    }
}

TEST(links_to_other_pages_are_urls)
{
    static const char mails[] = "link: must be an http or https URL that contains {token}";
    static const char *const rows[][3] = {
        {"grafana: \"mailto:a@b.example\"", NULL, "grafana: must begin with https:// or http://"},
        {"help: \"ftp://h.example\"", NULL, "help: must begin with https:// or http://"},
        {"contact: \"tel:1\"", NULL, "contact: must begin with https://, http:// or mailto:"},
        {"help: \"\"", "  link: \"https://a.example/\"\n", mails},
        {"help: \"\"", "  link: \"ftp://a.example/{token}\"\n", mails},
    };

    ask(NULL, 200, "{'contact':'mailto:a@b.example','help':'https://h.example','version':'1.0.0'}",
        "GET /console/about");
    ask(admin_of(host), 200, "{'grafana':'http://g.example','help':'https://h.example'}",
        "GET /console/settings");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct host *wrong =
            host_prepare(&(struct host_spec){.name = text("docs-links-%zu", i),
                                             .database = database,
                                             .modules = "[auth, console, health]",
                                             .auth = rows[i][1],
                                             .more = text("console:\n  %s\n", rows[i][0])});

        ck_assert(!host_run(wrong));
        host_logs(wrong, 0, rows[i][2]);
    }
}

/* ---- with and without modules ---- */

TEST(the_document_omits_a_module_removed_by_a_reload)
{
    struct host_spec own = spec;

    own.name = "docs-less";
    own.modules = "[auth, chat, docs, health, webhook]";
    own.more = NULL;
    struct host *less = host_start(&own);

    ck_assert_ptr_nonnull(operation(ask_on(less, NULL, 200, NULL, "GET /swagger-json")->json, "GET",
                                    "/api/chat/unread-count/:email"));
    own.modules = "[auth, device, docs, health]"; /* no module sends the events of device */
    file_write(less->conf, host_configuration(&own));
    host_says(less, 0, "reload");
    const json_t *after = ck_status(http(less, "GET", "/swagger-json", NULL, NULL), 200)->json;

    ck_assert_ptr_null(operation(after, "GET", "/api/chat/unread-count/:email"));
    ck_assert_ptr_nonnull(operation(after, "GET", "/api/auth/me"));
    ck_assert_ptr_null(json_object_get(after, "webhooks"));
}

/* A host without docs or console behaves like one with them, except for their paths. */
TEST(paths_of_docs_and_console_are_404_without_the_module)
{
    static const char *const paths[2][5] = {
        {"/swagger", "/swagger-json", "/openapi.json", "/openapi.yaml", "/swagger/assets/" SCRIPT},
        {"/", "/console", "/console/", "/console/chat", "/console/assets/" SCRIPT}};
    static const char *const modules[] = {NULL, "[docs, health]"};

    for (int i = 0; i < 2; i++) {
        struct host *without = host_start(&(struct host_spec){
            .name = text("docs-without-%d", i), .database = database, .modules = modules[i]});

        for (size_t k = 0; k < COUNT(paths[i]); k++)
            ck_error(http(without, "GET", paths[i][k], NULL, NULL), 404, "Path not found");
        ck_status(http(without, "GET", "/api/health", NULL, NULL), 200);
        if (i) {
            const json_t *document = ask_on(without, NULL, 200, NULL, "GET /swagger-json")->json;

            ck_assert_ptr_null(operation(document, "GET", "/console"));
            ck_assert_ptr_nonnull(operation(document, "GET", "/api/health"));
        }
        host_stop(without);
    }
}

TEST(the_document_is_served_without_the_files_of_the_page)
{
    struct host *bare = host_start(&(struct host_spec){
        .name = "docs-bare",
        .database = database,
        .modules = "[docs, health]",
        .more = text("docs:\n  pages: \"%s\"\n", harness_path("docs-nowhere"))});

    ck_error(http(bare, "GET", "/swagger", NULL, NULL), 404, "");
    ck_status(http(bare, "GET", "/swagger-json", NULL, NULL), 200);
}

SUITE(docs, .before_all = set_up, .timeout_s = 120)
