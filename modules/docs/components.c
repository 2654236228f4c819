/* The components to which all responses refer: headers, and the body of errors. */
#include "docs.h"

#include <string.h>

/* Returns whether all responses with a given status that may have the header do have it. */
static bool is_certain(const char *header)
{
    static const char *const names[] = {"RequestId",   "RetryAfter", "Authenticate",
                                        "Disposition", "EntityTag",  "Location"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i], header))
            return true;
    return false;
}

json_t *docs_shared_headers(struct docs_maker *maker)
{
    static const char *const rows[][4] = {
        {"RequestId", "string", "Id of the request. The log of the service has it, too.",
         "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11"},
        {"Link", "string", "`<…>; rel=\"next\"`: the next page. Absent on the last page.",
         "</api/device?limit=2&after=17>; rel=\"next\""},
        {"TotalCount", "integer", "Number of items on all pages. Only with `count=true`.", "42"},
        {"RetryAfter", "integer", "Seconds to wait before trying again.", "1"},
        {"Replayed", "string",
         "`true`: this is the response to an earlier request with the same key.", "true"},
        {"Authenticate", "string", "The authentication scheme, and why the token was refused.",
         "Bearer error=\"invalid_token\""},
        {"Disposition", "string", "The file name under which browsers save the body.",
         "attachment; filename=\"failed.csv\""},
        {"EntityTag", "string",
         "Version of the body. Send it as `If-None-Match` to get 304 while it is unchanged.",
         "\"5bd1e9955bd1e995\""},
        {"Location", "string", "Address to continue at.", "/console"},
        {"IgnoredParameters", "string",
         "Query parameters that were ignored because they are unknown, separated by commas. Absent "
         "if none.",
         "sort"},
    };
    json_t *headers = json_object();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *example = strcmp(rows[i][1], "integer")
                              ? json_string(rows[i][3])
                              : json_loads(rows[i][3], JSON_DECODE_ANY, NULL);

        docs_put(maker, headers, rows[i][0],
                 json_pack("{s:s, s:b, s:{s:s, s:[o]}}", "description", rows[i][2], "required",
                           is_certain(rows[i][0]), "schema", "type", rows[i][1], "examples",
                           example));
    }
    return headers;
}

/* The body of every error. */
static const struct bb_field error_problem[] = {
    {.name = "field", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "participant1"},
    {.name = "problem",
     .type = BB_TEXT,
     .flags = BB_REQUIRED,
     .example = "must be an e-mail address"},
};
static const struct bb_field error_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(error_problem)}};
static const struct bb_field error_body[] = {
    {.name = "statusCode",
     .type = BB_INT,
     .flags = BB_REQUIRED,
     .min = 400,
     .max = 599,
     .help = "The HTTP status code.",
     .example = "400"},
    {.name = "message",
     .type = BB_TEXT,
     .flags = BB_REQUIRED,
     .help = "What is wrong, for people to read.",
     .example = "The request is not valid"},
    {.name = "error",
     .type = BB_TEXT,
     .flags = BB_REQUIRED,
     .help = "The name of the status. From `POST /api/auth/getAccess`: an error code of RFC 6749.",
     .example = "Bad Request"},
    {.name = "requestId",
     .type = BB_TEXT,
     .flags = BB_REQUIRED,
     .help = "Id of the request, also in the log of the service.",
     .example = "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11"},
    {.name = "errors",
     .type = BB_LIST,
     .fields = BB_TABLE(error_item),
     .help = "All wrong fields of the request."},
    {.name = "success", .type = BB_BOOL, .help = "Only with status 409: false."},
    {.name = "error_description",
     .type = BB_TEXT,
     .help = "Only from `POST /api/auth/getAccess`: the message, under its name in RFC 6749."},
};

json_t *docs_error_schema(struct docs_maker *maker)
{
    return docs_object(maker, &(struct bb_table)BB_TABLE(error_body), true, true);
}
