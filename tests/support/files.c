#include "files.h"

const char *const files_fields[] = {"FORM_SF_02",          "SF_02C",         "METERING_EVIDENCE",
                                    "SINGLE_LINE_DIAGRAM", "PROJECT_PHOTOS", "COD_PROOF"};

const char *files_section(const char *directory)
{
    return text("device:\n  documents: \"%s\"\n", directory);
}

struct answer *files_get(const struct host *host, const struct person *who, const char *path)
{
    return http(host, "GET", text(DEVICE "/%s", path), who->token, NULL);
}

struct upload_body files_named(const char *external_id)
{
    struct upload_body body = {NULL, 0};

    upload_field(&body, "deviceToRegister", text("{\"externalId\":\"%s\"}", external_id));
    return body;
}

struct answer *files_post(const struct host *host, const struct person *who,
                          struct upload_body *body)
{
    return upload_send(host, "POST", DEVICE, who, body);
}

size_t files_count(const struct answer *answer)
{
    return json_array_size(json_object_get(answer->json, "documents"));
}

const char *files_document(const struct answer *answer, size_t index, const char *key)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(answer->json, "documents"), index), key));
}

struct answer *files_refused(const struct host *host, const struct person *who, const char *store,
                             struct upload_body *body, long status, const char *external_id)
{
    int before = files_now(store);
    struct answer *answer = ck_error(files_post(host, who, body), status, "");

    ck_error(files_get(host, who, external_id), 404, "");
    ck_assert(store_settles(store));
    WAIT_UNTIL(files_now(store) == before, 20000);
    return answer;
}

int files_now(const char *store)
{
    int files = store_files(store);

    return files < 0 ? 0 : files;
}

void files_expect_field(const struct answer *answer, const char *name)
{
    const json_t *errors = json_object_get(answer->json, "errors");

    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(errors, 0), "field")), name);
}
