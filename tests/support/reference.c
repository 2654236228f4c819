#include "reference.h"

#include <ctype.h>
#include <strings.h>
#include <sys/mman.h>

#include "client.h"
#include "schema.h"

#define ALL_MODULES                                                                                \
    "[audit, auth, bulk, certificate, chat, console, device, docs, health, metrics, reading, "     \
    "webhook]"

enum { SEGMENTS_MAX = 12, OPERATIONS_MAX = 400, STATUSES_MAX = 16 };

struct path {
    size_t count;
    char *segments[SEGMENTS_MAX]; /* decoded */
};

struct operation {
    const char *method, *written; /* in lower case; the path as written in the document */
    struct path path;
    const json_t *responses;
    atomic_uchar *seen; /* one for each of `responses` */
};

static json_t *document;
static struct operation operations[OPERATIONS_MAX];
static size_t operation_count;
static atomic_uchar (*board)[STATUSES_MAX];

const json_t *reference_document(void)
{
    return document;
}

/* ---- paths ---- */

static char *decoded(const char *segment, size_t length)
{
    char *plain = length ? curl_easy_unescape(NULL, segment, (int)length, NULL) : NULL;
    char *out = text("%s", plain ? plain : "");

    curl_free(plain);
    return out;
}

/* Splits the path; returns false if it has more segments than any operation. */
static bool cut(const char *target, struct path *path)
{
    path->count = 0;
    while (*target == '/' && target[1] && target[1] != '?') {
        size_t length = strcspn(++target, "/?");

        if (path->count == SEGMENTS_MAX)
            return false;
        path->segments[path->count++] = decoded(target, length);
        target += length;
    }
    return true;
}

static bool is_name(const char *segment)
{
    return *segment == '{';
}

static bool leads_to(const struct path *path, const struct operation *operation)
{
    size_t i = 0;

    if (path->count != operation->path.count)
        return false;
    while (i < path->count && (is_name(operation->path.segments[i]) ||
                               !strcmp(path->segments[i], operation->path.segments[i])))
        i++;
    return i == path->count;
}

/* If a path matches two operations, the host prefers the one with a fixed segment to one with a
 * variable. */
static bool is_nearer(const struct operation *one, const struct operation *other)
{
    for (size_t i = 0; other && i < one->path.count; i++) {
        bool own = is_name(one->path.segments[i]);

        if (own != is_name(other->path.segments[i]))
            return !own;
    }
    return true;
}

static struct operation *find(const struct reference_answer *answer)
{
    const char *method = strcasecmp(answer->method, "HEAD") ? answer->method : "GET";
    struct operation *found = NULL;
    struct path path;

    if (!cut(answer->target, &path))
        return NULL;
    for (size_t i = 0; i < operation_count; i++) {
        if (!strcasecmp(operations[i].method, method) && leads_to(&path, &operations[i]) &&
            is_nearer(&operations[i], found))
            found = &operations[i];
    }
    return found;
}

/* ---- headers ---- */

/* Headers of HTTP itself, and those that only browsers and proxies read. */
static bool is_usual(const char *name, size_t length)
{
    static const char *const usual[] = {
        "Date",
        "Connection",
        "Keep-Alive",
        "Transfer-Encoding",
        "Content-Length",
        "Content-Type",
        "Content-Encoding",
        "Cache-Control",
        "Pragma",
        "Set-Cookie",
        "Vary",
        "X-Request-Id",
        "X-Late", /* from module_late.c, in responses to requests that wire.c does not know */
        "X-Accel-Buffering",
        "X-Content-Type-Options",
        "Referrer-Policy",
        "Content-Security-Policy",
        "X-Frame-Options",
        "Cross-Origin-Opener-Policy",
    };

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        if (length == strlen(usual[i]) && !strncasecmp(usual[i], name, length))
            return true;
    }
    return length > 15 && !strncasecmp(name, "Access-Control-", 15);
}

static const json_t *header_of(const json_t *headers, const char *name, size_t length)
{
    const char *key;
    json_t *header;

    json_object_foreach ((json_t *)(uintptr_t)headers, key, header) {
        if (strlen(key) == length && !strncasecmp(key, name, length))
            return header;
    }
    return NULL;
}

static const char *value_problem(const json_t *header, const char *value, size_t length)
{
    const json_t *schema = json_object_get(schema_resolved(document, header), "schema");
    json_t *whole = json_loadb(value, length, JSON_DECODE_ANY, NULL);
    json_t *said = json_is_integer(whole) ? json_incref(whole) : json_stringn(value, length);
    const char *problem = schema_problem(document, schema, said);

    json_decref(whole);
    json_decref(said);
    return problem;
}

/* `headers`: the ones in the reference; NULL: only the usual ones. */
static const char *line_problem(const json_t *headers, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    size_t name = colon ? (size_t)(colon - line) : 0;

    if (!name || is_usual(line, name))
        return NULL;
    const json_t *header = header_of(headers, line, name);
    size_t value = name + 1 + (name + 1 < length && line[name + 1] == ' ');
    const char *problem =
        header ? value_problem(header, line + value, length - value) : " is not in the reference";

    return problem ? text("the header %.*s%s", (int)name, line, problem) : NULL;
}

/* Returns a required header that is missing. A 503 because of missing memory may lack headers. */
static const char *absent_problem(const json_t *headers, const char *lines)
{
    const char *name;
    json_t *header;

    if (!strncmp(lines + strcspn(lines, " "), " 503", 4))
        return NULL;
    json_object_foreach ((json_t *)(uintptr_t)headers, name, header) {
        const json_t *whole = schema_resolved(document, header);

        if (json_is_true(json_object_get(whole, "required")) &&
            !strcasestr(lines, text("\r\n%s:", name)))
            return text("there is no %s", name);
    }
    return NULL;
}

static const char *headers_problem(const json_t *headers, const char *lines)
{
    const char *problem = absent_problem(headers, lines);

    if (!strcasestr(lines, "\r\nX-Request-Id: "))
        return "there is no X-Request-Id";
    lines += strcspn(lines, "\n");
    while (*lines && *++lines && !problem) {
        problem = line_problem(headers, lines, strcspn(lines, "\r\n"));
        lines += strcspn(lines, "\n");
    }
    return problem;
}

/* ---- bodies ---- */

/* Returns "text/html" for "text/html; charset=utf-8", in lower case; "" without a Content-Type. */
static const char *type_of(const char *headers)
{
    char *type = header_in(headers, "Content-Type");

    if (!type)
        return "";
    type[strcspn(type, "; ")] = '\0';
    for (char *letter = type; *letter; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    return type;
}

static const char *text_problem(const char *type, const struct reference_answer *answer)
{
    bool plain =
        !strncmp(type, "text/", 5) && !strcasestr(answer->headers, "\r\nContent-Encoding:");
    const char *problem = plain ? reference_text_problem(type, answer->body, answer->length) : NULL;

    return problem ? text("the body%s", problem) : NULL;
}

static const char *body_problem(const json_t *content, const struct reference_answer *answer)
{
    const char *type = type_of(answer->headers);
    const json_t *media = json_object_get(content, type);

    if (!media)
        media = json_object_get(content, "*/*");
    if (!answer->length && !content)
        return NULL;
    if (!media)
        return text("the type \"%s\" is not in the reference", type);
    if (!strcasecmp(answer->method, "HEAD"))
        return NULL;
    if (strcmp(type, "application/json") != 0)
        return text_problem(type, answer);
    /* JSON allows integers that are too large for jansson. */
    json_t *json = answer->json ? json_incref((json_t *)(uintptr_t)answer->json)
                                : json_loadb(answer->body, answer->length,
                                             JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    const char *problem =
        json ? schema_problem(document, json_object_get(media, "schema"), json) : " is not JSON";

    json_decref(json);
    return problem ? text("the body%s", problem) : NULL;
}

/* ---- responses ---- */

/* Returns whether the route belongs to a module of the tests or examples, or to another server. */
static bool is_foreign(const char *target)
{
    EACH_TEXT (path, "/bad/", "/late", "/api/poke/", "/api/keys/", "/api/wave", "/api/hello",
               "/api/cpps", "/api/rusts", "/witness", "/-/", "/stats", "/crash", "/api/contacts",
               "/ids?", "/count?", "/relay", "/live", "/api/notes") {
        if (!strncmp(target, path, strlen(path)))
            return true;
    }
    return false;
}

/* Returns whether the target is a page for browsers or one of its files. The reference omits them.
 */
static bool is_page(const char *target)
{
    return !strcmp(target, "/") || !strncmp(target, "/console", 8) ||
           (!strncmp(target, "/swagger", 8) && strchr("/?", target[8]));
}

/* Checks a response that was sent before an operation was found, or because there is none:
 * docs/reference.md. */
static const char *common_problem(const struct reference_answer *answer)
{
    static const char name[] = "{s:{}, s:{}, s:{}}";
    json_t *headers = json_pack(name, "Allow", "Retry-After", "WWW-Authenticate");
    json_t *content = json_pack("{s:{s:{s:s}}}", "application/json", "schema", "$ref",
                                "#/components/schemas/Error");
    bool options = !strcasecmp(answer->method, "OPTIONS") && answer->status == 204;
    const char *problem = headers_problem(headers, answer->headers);

    if (!problem && !options)
        problem = answer->status < 400 ? "there is no such operation in the reference"
                                       : body_problem(content, answer);
    json_decref(headers);
    json_decref(content);
    return problem;
}

/* Returns whether a hook of the tests has refused the request with its own status
 * (module_spy.c). */
static bool is_vetoed(const struct reference_answer *answer)
{
    const char *message = json_string_value(json_object_get(answer->json, "message"));

    return message && !strcmp(message, "The spy does not like this message");
}

/* Returns whether the host refused the request before it looked for the operation: because of its
 * head, or because no loaded module has the path. */
static bool is_before(const struct reference_answer *answer)
{
    static const char *const none = "Path not found";
    const char *message = json_string_value(json_object_get(answer->json, "message"));
    long status = answer->status;

    return status == 414 || status == 431 || status == 501 || status == 505 ||
           (status == 404 && message && !strcmp(message, none));
}

static const char *operation_problem(struct operation *operation,
                                     const struct reference_answer *answer)
{
    const char *status = text("%ld", answer->status), *key, *problem = NULL;
    size_t place = 0;
    json_t *response = NULL;

    json_object_foreach ((json_t *)(uintptr_t)operation->responses, key, response) {
        if (!strcmp(key, status))
            break;
        place++;
    }
    if (place == json_object_size(operation->responses))
        return "the status is not in the reference";
    atomic_store(&operation->seen[place], 1);
    const json_t *whole = schema_resolved(document, response);

    problem = headers_problem(json_object_get(whole, "headers"), answer->headers);
    return problem ? problem : body_problem(json_object_get(whole, "content"), answer);
}

void reference_keeps(const struct reference_answer *answer)
{
    struct operation *operation = document ? find(answer) : NULL;
    const char *problem;

    if (!document || !answer->status || is_foreign(answer->target) || is_vetoed(answer) ||
        (answer->status < 400 && is_page(answer->target)))
        return;
    problem = operation && !is_before(answer) ? operation_problem(operation, answer)
                                              : common_problem(answer);
    ck_assert_msg(!problem, "%s %.200s has status %ld, and %s: docs/reference.md\n%.2000s",
                  answer->method, answer->target, answer->status, problem, answer->headers);
}

void reference_keeps_head(const char *method, const char *target, long status, const char *headers)
{
    if (status < 400) /* check it as a HEAD, because there is no body yet */
        reference_keeps(&(struct reference_answer){
            .method = strcmp(method, "GET") ? method : "HEAD",
            .target = target,
            .status = status,
            .headers = headers,
            .body = "",
        });
}

/* A 503 of the module health reports the state of a dependency and has no usual error body. */
static bool is_state(const struct reference_answer *answer)
{
    return answer->status == 503 && json_object_get(answer->json, "status");
}

void reference_keeps_error(const struct reference_answer *answer)
{
    const char *problem =
        document && answer->status >= 400 && !is_state(answer) ? common_problem(answer) : NULL;

    ck_assert_msg(!problem, "a response has status %ld, and %s: docs/reference.md\n%.2000s%.500s",
                  answer->status, problem, answer->headers, answer->body);
}

/* ---- the document ---- */

void reference_share(void)
{
    board = mmap(NULL, sizeof(*board) * OPERATIONS_MAX, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        abort();
}

static void add_path(const char *written, const json_t *item)
{
    const char *method;
    json_t *about;

    json_object_foreach ((json_t *)(uintptr_t)item, method, about) {
        ck_assert_uint_lt(operation_count, OPERATIONS_MAX);
        struct operation *operation = &operations[operation_count];

        *operation = (struct operation){.method = method,
                                        .written = written,
                                        .responses = json_object_get(about, "responses"),
                                        .seen = board[operation_count]};
        ck_assert(cut(written, &operation->path));
        ck_assert_uint_le(json_object_size(operation->responses), STATUSES_MAX);
        operation_count++;
    }
}

/* A schema with rules unknown to schema.h could not be checked, so no test would find violations of
 * it. */
static void check_schemas(void)
{
    const char *flaw = schema_flaw_inside(document, document), *name;
    json_t *schema;

    ck_assert_msg(!flaw, "a schema of the reference is not valid: %s", flaw);
    json_object_foreach (json_object_get(json_object_get(document, "components"), "schemas"), name,
                         schema) {
        flaw = schema_flaw(document, schema);
        ck_assert_msg(!flaw, "the reference's schema %s is not valid: %s", name, flaw);
    }
}

void reference_open(void)
{
    struct host *host = host_prepare(&(struct host_spec){
        .name = "reference",
        .database = "template1",
        .redis = "",
        .modules = ALL_MODULES,
        .log = "  level: error\n",
        .more = text("bulk:\n  files: \"%s\"\ndevice:\n  documents: \"%s\"\n",
                     harness_path("reference-bulk"), harness_path("reference-documents"))});
    const char *written;
    json_error_t why;
    json_t *item;
    int status;
    const char *said = host_ask(host, "reference", &status);
    const char *behind = strstr(said, "\n{"); /* after warnings, for instance about missing pages */

    document = json_loads(*said == '{' || !behind ? said : behind, 0, &why);
    ck_assert_msg(!status && document, "busbar reference says, with status %d: %s, in %.2000s",
                  status, why.text, said);
    check_schemas();
    json_object_foreach (json_object_get(kept(document), "paths"), written, item) {
        add_path(written, item);
    }
}

void reference_tell_unseen(void)
{
    for (size_t i = 0; getenv("BUSBAR_TEST_UNSEEN") && i < operation_count; i++) {
        const struct operation *operation = &operations[i];
        size_t place = 0;
        const char *status;
        json_t *response;

        json_object_foreach ((json_t *)(uintptr_t)operation->responses, status, response) {
            if (!atomic_load(&operation->seen[place++]))
                printf("integration: unseen: %s %s %s\n", operation->method, operation->written,
                       status);
        }
    }
}
