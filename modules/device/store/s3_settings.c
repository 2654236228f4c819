/* Checks the settings of the S3 store. */
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <string.h>

#include "modules/device/record/device.h"
#include "modules/device/store/s3.h"

/* Characters that need no encoding in a path, so that the signed path is the path that is sent. */
static bool is_plain(const char *text, const char *more)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    for (; *text; text++)
        if (!strchr(plain, *text) && !strchr(more, *text))
            return false;
    return true;
}

/* Returns whether no server, proxy or libcurl would normalize the path. */
static bool is_plain_path(const char *path)
{
    return is_plain(path, "/") && *path != '/' && !strstr(path, "..") && !strstr(path, "//") &&
           strncmp(path, "./", 2) != 0 && !strstr(path, "/./");
}

static const char *path_problem(CURLU *url)
{
    char *path = NULL;
    bool fits = !curl_url_get(url, CURLUPART_PATH, &path, 0) && is_plain_path(path + 1) &&
                path[strlen(path) - 1] != '.'; /* the bucket follows */

    curl_free(path);
    return fits ? NULL : "s3_endpoint: the path must be as an s3_prefix, and end without a dot";
}

/* Accepts http or https, a host and an optional path. */
static const char *check_endpoint(const char *endpoint)
{
    static const struct {
        CURLUPart part;
        const char *problem;
    } none[] = {
        {CURLUPART_USER, "s3_endpoint: must not name a user"},
        {CURLUPART_QUERY, "s3_endpoint: must have no query"},
        {CURLUPART_FRAGMENT, "s3_endpoint: must have no fragment"},
    };
    CURLU *url = curl_url();
    const char *problem = "s3_endpoint: must be an address, as https://s3.example.org";
    char *part = NULL;

    if (url && !curl_url_set(url, CURLUPART_URL, endpoint, CURLU_PATH_AS_IS) &&
        !curl_url_get(url, CURLUPART_SCHEME, &part, 0) &&
        (!strcmp(part, "http") || !strcmp(part, "https")))
        problem = NULL;
    for (size_t i = 0; !problem && i < sizeof(none) / sizeof(*none); i++) {
        curl_free(part);
        part = NULL;
        if (!curl_url_get(url, none[i].part, &part, 0))
            problem = none[i].problem;
    }
    curl_free(part);
    if (!problem)
        problem = path_problem(url);
    curl_url_cleanup(url);
    return problem;
}

/* Reads the file as libcurl will, which would report an error only at the first request. */
static bool has_certificates(const char *path)
{
    X509_STORE *store = X509_STORE_new();
    bool has = store && X509_STORE_load_file(store, path);

    X509_STORE_free(store);
    ERR_clear_error();
    return has;
}

const char *s3_settings_problem(const struct device_settings *settings)
{
    const char *problem = check_endpoint(settings->s3_endpoint);

    if (problem)
        return problem;
    if (!*settings->s3_bucket || *settings->s3_bucket == '.' || !is_plain(settings->s3_bucket, ""))
        return "s3_bucket: must be the name of a bucket";
    if (!*settings->s3_region || !is_plain(settings->s3_region, ""))
        return "s3_region: must be the name of a region";
    if (!*settings->s3_access_key || !*settings->s3_secret_key)
        return "s3_access_key and s3_secret_key: are required if store is s3";
    if (!is_plain_path(settings->s3_prefix))
        return "s3_prefix: must be letters, digits, '-', '_', '.' and '/', as a path without dots";
    if (*settings->s3_ca && !has_certificates(settings->s3_ca))
        return "s3_ca: must be a file of certificates (PEM) that can be read";
    return NULL;
}
