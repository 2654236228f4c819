#include "client.h"

#include "reference.h"
#include "secrets.h"

enum { SOON_MS = 30000 };

void client_open_library(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort();
}

CURL *client_open(void)
{
    CURL *connection = curl_easy_init();

    ck_assert_ptr_nonnull(connection);
    return connection;
}

static struct curl_slist *request_headers(const struct call *call)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    const char *type = call->type ? call->type : "application/json";

    if (call->body)
        list = curl_slist_append(list, text("Content-Type: %s", type));
    if (call->token)
        list = curl_slist_append(list, text("Authorization: Bearer %s", call->token));
    for (int i = 0; call->headers && call->headers[i]; i++)
        list = curl_slist_append(list, call->headers[i]);
    return list;
}

static void set_request(CURL *curl, const struct host *host, const struct call *call)
{
    size_t length = call->body && !call->length ? strlen(call->body) : call->length;

    curl_easy_reset(curl);
    curl_easy_setopt(
        curl, CURLOPT_URL,
        text("http://127.0.0.1:%d%s", (call->host ? call->host : host)->port, call->path));
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 30000L * PATIENCE);
    if (!strcmp(call->method, "HEAD"))
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (call->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    }
}

/* libcurl writes to the streams. Returns false if there was no complete response. */
static bool perform(CURL *curl, struct answer *answer)
{
    size_t size;
    FILE *body = open_memstream(&answer->body, &answer->length);
    FILE *headers = open_memstream(&answer->headers, &size);

    if (!body || !headers)
        abort();
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, answer->problem);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, headers);
    bool got = curl_easy_perform(curl) == CURLE_OK;

    fclose(body);
    fclose(headers);
    kept(answer->body);
    kept(answer->headers);
    return got;
}

struct answer *http_send(const struct host *host, const struct call *call)
{
    CURL *curl = call->connection ? call->connection : client_open();
    struct answer *answer = kept(calloc(1, sizeof *answer));
    struct curl_slist *list = request_headers(call);

    set_request(curl, host, call);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    if (perform(curl, answer))
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_easy_getinfo(curl, CURLINFO_TOTAL_TIME, &answer->seconds);
    answer->json = json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL);
    if (answer->json)
        secrets_add_json(kept(answer->json));
    curl_slist_free_all(list);
    if (!call->connection)
        curl_easy_cleanup(curl);
    reference_keeps(&(struct reference_answer){.method = call->method,
                                               .target = call->path,
                                               .status = answer->status,
                                               .headers = answer->headers,
                                               .body = answer->body,
                                               .length = answer->length,
                                               .json = answer->json});
    return answer;
}

struct answer *http(const struct host *host, const char *method, const char *path,
                    const char *token, json_t *json)
{
    char *body = json ? kept(json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY)) : NULL;

    secrets_add_json(json);
    json_decref(json);
    return http_send(host,
                     &(struct call){.method = method, .path = path, .token = token, .body = body});
}

void status_soon(const struct host *host, const char *path, const char *token, long status)
{
    WAIT_UNTIL_MSG(http(host, "GET", path, token, NULL)->status == status, SOON_MS,
                   "GET %s does not get %ld from %s:%s", path, status, host->name,
                   host->log ? file_text(host->log) : "");
}

char *header_in(const char *head, const char *name)
{
    const char *at = strcasestr(head, text("\r\n%s:", name));

    if (!at)
        return NULL;
    at += strlen(name) + 3;
    at += strspn(at, " ");
    return text("%.*s", (int)strcspn(at, "\r\n"), at);
}

const char *answer_header(const struct answer *answer, const char *name)
{
    return header_in(answer->headers, name);
}

const char *answer_text(const struct answer *answer, const char *key)
{
    const char *value = json_string_value(json_object_get(answer->json, key));

    ck_assert_msg(value != NULL, "no string %s in %s", key, answer->body);
    return value;
}

int64_t answer_int(const struct answer *answer, const char *key)
{
    const json_t *value = json_object_get(answer->json, key);

    ck_assert_msg(json_is_integer(value), "no whole number %s in %s", key, answer->body);
    return json_integer_value(value);
}

void answer_warns(const struct answer *answer, const char *text)
{
    const json_t *list = json_object_get(answer->json, "warnings"), *warning;
    bool found = !text && !list;
    size_t index;

    json_array_foreach (list, index, warning)
        found = found || (text && !strncmp(json_string_value(warning), text, strlen(text)));
    ck_assert_msg(found, "no warning \"%s\" in %s", text ? text : "(none at all)", answer->body);
}

struct answer *answer_expect(struct answer *answer, long status, const char *file, int line)
{
    ck_assert_msg(answer->status == status, "%s:%d: status %ld instead of %ld: %s%.500s", file,
                  line, answer->status, status, answer->problem, answer->body);
    return answer;
}

void error_hides_internals(const char *headers, const char *body)
{
    ck_assert_ptr_null(header_in(headers, "Server"));
    ck_assert_ptr_null(header_in(headers, "X-Powered-By"));
    EACH_TEXT (part, "SQL", "postgres", "pg_", "microhttpd", "/core/", ".c:", "select ", "auth_")
        ck_assert_msg(!strstr(headers, part) && !strstr(body, part), "%s in %s%s", part, headers,
                      body);
}

struct answer *answer_expect_error(struct answer *answer, long status, const char *message,
                                   const char *file, int line)
{
    answer_expect(answer, status, file, line);
    const char *said = answer_text(answer, "message");

    error_hides_internals(answer->headers, answer->body);
    ck_assert_int_eq(answer_int(answer, "statusCode"), status);
    answer_text(answer, "error");
    ck_assert_str_eq(answer_text(answer, "requestId"), answer_header(answer, "X-Request-Id"));
    if (status == 429 || status == 503)
        ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    ck_assert_msg(!strncmp(said, message, strlen(message)),
                  "%s:%d: message \"%s\" does not begin with \"%s\"", file, line, said, message);
    return answer;
}

char *encoded(const char *segment)
{
    char *escaped = curl_easy_escape(NULL, segment, 0);
    char *own = text("%s", escaped);

    curl_free(escaped);
    return own;
}

int raw_open(const struct host *host)
{
    int fd = port_connect(host->port);

    ck_assert_int_ge(fd, 0);
    return fd;
}
