/*
 * The store as a bucket of an S3 server. An object is stored as a whole or not at all; the request
 * is signed with the hash of the content, which the server compares. A downloaded object is hashed
 * again while it is written to an unnamed file, and is sent from there only if the hash matches. A
 * call ends within `timeout_ms`, however many files it has, including the time to delete its files
 * again; only the sweep may take longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/device/record/device.h"
#include "modules/device/store/s3.h"

enum {
    DIGEST = 32,
    DIRECTORY_MODE = 0700,
    REMOVED_IN_TIME = 100 /* objects per timeout; more objects get more time */
};

static struct s3 *s3_of(struct store *store)
{
    return (struct s3 *)(void *)store;
}

static void object_url(const struct s3 *s3, const char *name, char url[S3_URL])
{
    snprintf(url, S3_URL, "%s/%.255s%.101s", s3->base, s3->prefix, name);
}

/* Builds a request without content. */
static struct s3_request request_of(struct s3 *s3, const char *method, const char *url,
                                    int64_t until_ms)
{
    return (struct s3_request){.s3 = s3,
                               .method = method,
                               .url = url,
                               .sha256 = S3_NO_CONTENT,
                               .until_ms = until_ms,
                               .file = -1};
}

static struct s3_request get_request(struct s3 *s3, const char *url,
                                     int (*take)(void *arg, const char *bytes, size_t length),
                                     void *arg)
{
    struct s3_request request = request_of(s3, "GET", url, s3_now_ms() + s3->timeout_ms);

    request.take = take;
    request.arg = arg;
    return request;
}

/* ---- keeping ---- */

static int put(struct s3 *s3, const char *path, const char *name, int64_t until_ms,
               char why[STORE_WHY])
{
    char url[S3_URL], sha256[STORE_SHA256 + 1];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC), failed = -1;

    object_url(s3, name, url);
    snprintf(sha256, sizeof(sha256), "%s", name);
    if (fd < 0 || fstat(fd, &about)) {
        snprintf(why, STORE_WHY, "a file that has arrived cannot be read");
    } else {
        struct s3_request request = {.s3 = s3,
                                     .method = "PUT",
                                     .url = url,
                                     .sha256 = sha256,
                                     .until_ms = until_ms,
                                     .file = fd,
                                     .length = about.st_size};

        failed = s3_send(&request, why);
    }
    if (fd >= 0)
        close(fd);
    return failed;
}

static void keep(struct store_keep *job)
{
    struct s3 *s3 = s3_of(job->store);

    job->until_ms = s3_now_ms() + s3->timeout_ms;
    while (job->begun < job->count) {
        size_t i = job->begun++;

        if (put(s3, job->paths[i], job->names[i], job->until_ms, job->why))
            return;
    }
}

/* ---- opening ---- */

struct fetch {
    struct store_open *job;
    EVP_MD_CTX *digest;
    int64_t length;
};

static int fetch_failed(const struct fetch *fetch, const char *reason)
{
    snprintf(fetch->job->why, STORE_WHY, "%s", reason);
    return -1;
}

static int fetch_take(void *arg, const char *bytes, size_t length)
{
    struct fetch *fetch = arg;

    fetch->length += (int64_t)length;
    if (fetch->length > fetch->job->length)
        return fetch_failed(fetch, "GET: the object is longer than the stored file");
    if (!EVP_DigestUpdate(fetch->digest, bytes, length))
        return fetch_failed(fetch, "out of memory");
    while (length) {
        ssize_t wrote = write(fetch->job->fd, bytes, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return fetch_failed(fetch, "the object cannot be written to device.documents");
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

/* Opens an unnamed file in `incoming/`, creating the directory if it is missing; -1 on failure. */
static int open_nameless(const struct store *store)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/incoming/fetch-XXXXXX", store->directory) >= PATH_MAX)
        return -1;
    int fd = mkostemp(path, O_CLOEXEC);

    if (fd < 0 && errno == ENOENT) {
        (void)mkdir(store->directory, DIRECTORY_MODE);
        snprintf(path, sizeof(path), "%s/incoming", store->directory);
        (void)mkdir(path, DIRECTORY_MODE);
        strcat(path, "/fetch-XXXXXX");
        fd = mkostemp(path, O_CLOEXEC);
    }
    if (fd >= 0)
        unlink(path);
    return fd;
}

static void check_digest(const struct fetch *fetch)
{
    unsigned char digest[DIGEST];
    char sha256[STORE_SHA256 + 1];

    if (!EVP_DigestFinal_ex(fetch->digest, digest, NULL)) {
        fetch_failed(fetch, "out of memory");
        return;
    }
    for (size_t i = 0; i < DIGEST; i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    if (fetch->length != fetch->job->length || strncmp(sha256, fetch->job->name, STORE_SHA256) != 0)
        fetch_failed(fetch, "GET: the object differs from the stored file");
}

static void open_one(struct store_open *job)
{
    struct s3 *s3 = s3_of(job->store);
    struct fetch fetch = {.job = job};
    char url[S3_URL];

    job->fd = open_nameless(job->store);
    if (job->fd < 0) {
        snprintf(job->why, STORE_WHY, "device.documents cannot be written");
        return;
    }
    object_url(s3, job->name, url);
    struct s3_request request = get_request(s3, url, fetch_take, &fetch);

    fetch.digest = EVP_MD_CTX_new();
    if (!fetch.digest || !EVP_DigestInit_ex(fetch.digest, EVP_sha256(), NULL))
        fetch_failed(&fetch, "out of memory");
    else if (!s3_send(&request, job->why))
        check_digest(&fetch);
    if (*job->why) {
        close(job->fd);
        job->fd = -1;
    }
    EVP_MD_CTX_free(fetch.digest);
}

/* ---- listing and removing ---- */

/* Writes the query in canonical form: sorted names, encoded values. Returns -1 if out of memory. */
static int list_url(const struct s3 *s3, const struct store_list *list, char url[S3_URL + 4096])
{
    char *prefix = curl_easy_escape(NULL, s3->prefix, 0);
    char *after = curl_easy_escape(NULL, list->after, 0);
    int failed = prefix && after ? 0 : -1;

    if (!failed)
        snprintf(url, S3_URL + 4096, "%s?list-type=2&max-keys=%d&prefix=%s%s%s", s3->base,
                 STORE_BATCH, prefix, *after ? "&start-after=" : "", after);
    curl_free(prefix);
    curl_free(after);
    return failed;
}

static void list(struct store_list *job)
{
    struct s3 *s3 = s3_of(job->store);
    char url[S3_URL + 4096], before[STORE_AFTER];
    struct s3_page page = {.prefix = s3->prefix, .list = job};

    if (list_url(s3, job, url) || s3_page_begin(&page)) {
        snprintf(job->why, STORE_WHY, "out of memory");
        (void)s3_page_end(&page);
        return;
    }
    struct s3_request request = get_request(s3, url, s3_page_take, &page);

    memcpy(before, job->after, sizeof(before));
    (void)s3_send(&request, job->why); /* sets job->why, unless the page refused the response */
    int unread = s3_page_end(&page);

    if (!page.problem && page.truncated && page.seen && strcmp(job->after, before) <= 0)
        page.problem = "the list of objects does not go on";
    if (!*job->why && (page.problem || unread))
        snprintf(job->why, STORE_WHY, "GET: %s",
                 page.problem ? page.problem : "the list of objects is cut off");
    job->more = !*job->why && page.truncated && page.seen;
}

static int delete_one(struct s3 *s3, const char *name, int64_t until_ms, char why[STORE_WHY])
{
    char url[S3_URL];

    object_url(s3, name, url);
    struct s3_request request = request_of(s3, "DELETE", url, until_ms);

    if (!s3_send(&request, why))
        return 0;
    if (request.status != 404 || strcmp(request.code, "NoSuchKey") != 0)
        return -1;
    why[0] = '\0';
    return 0;
}

static void remove_all(struct store_remove *job)
{
    struct s3 *s3 = s3_of(job->store);
    int64_t turns = 1 + (int64_t)job->count / REMOVED_IN_TIME;
    int64_t until_ms = job->until_ms ? job->until_ms : s3_now_ms() + turns * s3->timeout_ms;

    while (job->removed < job->count &&
           !delete_one(s3, job->names[job->removed], until_ms, job->why))
        job->removed++;
}

/* ---- settings ---- */

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
    part = NULL;
    /* the bucket follows the path */
    if (!problem && (curl_url_get(url, CURLUPART_PATH, &part, 0) || !is_plain_path(part + 1) ||
                     part[strlen(part) - 1] == '.'))
        problem = "s3_endpoint: the path must be as an s3_prefix, and end without a dot";
    curl_free(part);
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

/* Returns a log text about what is wrong with the settings; NULL: nothing. */
static const char *settings_problem(const struct device_settings *settings)
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

/* ---- creating ---- */

static void free_s3(struct store *store)
{
    struct s3 *s3 = s3_of(store);

    for (size_t i = 0; i < S3_THREADS; i++)
        curl_easy_cleanup(s3->idle[i]);
    pthread_mutex_destroy(&s3->lock);
    free(s3);
}

struct store *store_s3_new(const struct device_settings *settings, char why[STORE_WHY])
{
    static const struct store_calls calls = {keep, open_one, list, remove_all, free_s3};
    const char *problem = settings_problem(settings);
    struct s3 *s3 = problem ? NULL : calloc(1, sizeof(*s3));
    size_t length = strlen(settings->s3_endpoint);

    if (!s3) {
        snprintf(why, STORE_WHY, "%s", problem ? problem : "out of memory");
        return NULL;
    }
    while (length && settings->s3_endpoint[length - 1] == '/')
        length--;
    s3->store = (struct store){&calls, settings->documents, DEVICE_S3_POOL};
    snprintf(s3->base, sizeof(s3->base), "%.*s/%s", (int)length, settings->s3_endpoint,
             settings->s3_bucket);
    snprintf(s3->scope, sizeof(s3->scope), "aws:amz:%s:s3", settings->s3_region);
    s3->prefix = settings->s3_prefix;
    s3->access_key = settings->s3_access_key;
    s3->secret_key = settings->s3_secret_key;
    s3->ca = settings->s3_ca;
    s3->timeout_ms = settings->s3_timeout;
    pthread_mutex_init(&s3->lock, NULL);
    return &s3->store;
}
