/*
 * The store that uses a directory: the object ab12… is the file ab/ab12…. A file gets its name only
 * after its content is on disk, and documents are added only after the name is on disk.
 */
#include "modules/device/store.h"

#include <dirent.h>
#include <errno.h>
#include <expat.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509_vfy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/common/http_client.h"
#include "modules/device/device.h"

enum { SHARDS = 256, UUID = 36 };

/* Returns whether a text is an object's name; with `contents`, "<sha256>.chat" is a name, too. */
static bool store_is_name(const char *text, bool contents)
{
    size_t length = strlen(text);

    if (length >= STORE_NAME || strspn(text, "0123456789abcdef") != STORE_SHA256)
        return false;
    return length == STORE_SHA256 || (contents && text[STORE_SHA256] == '.') ||
           (length == STORE_NAME - 1 && text[STORE_SHA256] == '-' &&
            strspn(text + STORE_SHA256 + 1, "0123456789abcdef-") == UUID);
}

int store_incoming(const struct store *store, char path[STORE_PATH])
{
    snprintf(path, STORE_PATH, "%s/incoming", store->directory);
    (void)mkdir(store->directory, STORE_MODE);
    (void)mkdir(path, STORE_MODE);
    snprintf(path, STORE_PATH, "%s/incoming/store-XXXXXX", store->directory);
    return mkostemp(path, O_CLOEXEC);
}

bool store_is_named(const char *name, const unsigned char *sha256)
{
    char digits[STORE_SHA256 + 1];

    for (size_t i = 0; i < STORE_SHA256 / 2; i++)
        snprintf(digits + 2 * i, 3, "%02x", sha256[i]);
    return !strncmp(name, digits, STORE_SHA256);
}

static void directory_failed(struct store_job *job, int error)
{
    char text[96];

    snprintf(job->why, STORE_WHY, "%.90s: %s", job->store->directory,
             strerror_r(error, text, sizeof(text)));
}

static int directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    int error = fsync(fd) ? errno : 0;

    close(fd);
    errno = error;
    return error ? -1 : 0;
}

/* Renames all files before it syncs directories, because the first sync usually commits all. */
static void directory_keep(void *arg)
{
    struct store_keep *keep = arg;
    const char *top = keep->job.store->directory;
    char path[STORE_PATH];
    bool made = false;
    int failed = 0;

    for (size_t i = 0; i < keep->count && !failed; i++) {
        snprintf(path, sizeof(path), "%s/%.2s", top, keep->names[i]);
        bool fresh = !mkdir(path, STORE_MODE);

        made = made || fresh;
        failed = fresh || errno == EEXIST ? 0 : -1;
        snprintf(path, sizeof(path), "%s/%.2s/%s", top, keep->names[i], keep->names[i]);
        failed = failed ? failed : rename(keep->paths[i], path);
    }
    if (!failed && made)
        failed = directory_sync(top);
    for (size_t i = 0; i < keep->count && !failed; i++) {
        snprintf(path, sizeof(path), "%s/%.2s", top, keep->names[i]);
        failed = directory_sync(path);
    }
    if (failed)
        directory_failed(&keep->job, errno);
}

static void directory_open(void *arg)
{
    struct store_open *job = arg;
    char path[STORE_PATH];
    struct stat about;

    snprintf(path, sizeof(path), "%s/%.2s/%s", job->job.store->directory, job->name, job->name);
    job->fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = job->fd < 0 || fstat(job->fd, &about) ? errno
                : about.st_size == job->length        ? 0
                                                      : EIO;

    if (!error) {
        (void)readahead(job->fd, 0, (size_t)job->length);
        return;
    }
    directory_failed(&job->job, error);
    if (job->fd >= 0)
        close(job->fd);
    job->fd = -1;
}

static int directory_by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static void directory_list(void *arg)
{
    struct store_list *list = arg;
    char digits[3] = {list->after[0], list->after[0] ? list->after[1] : '\0', '\0'};

    for (unsigned shard = (unsigned)strtoul(digits, NULL, 16);
         shard < SHARDS && list->count < STORE_BATCH && !*list->job.why; shard++) {
        char path[STORE_PATH];
        struct dirent **entries = NULL;
        struct stat about;

        snprintf(path, sizeof(path), "%s/%02x", list->job.store->directory, shard);
        int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int count =
            directory < 0 ? 0 : scandirat(directory, ".", &entries, NULL, directory_by_name);

        if (directory < 0 ? errno != ENOENT : count < 0)
            directory_failed(&list->job, errno);
        for (int i = 0; i < count; i++) {
            const char *name = entries[i]->d_name;
            bool next = list->count < STORE_BATCH && store_is_name(name, list->contents) &&
                        strcmp(name, list->after) > 0;

            if (next && fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW)) {
                if (errno != ENOENT)
                    directory_failed(&list->job, errno);
            } else if (next && S_ISREG(about.st_mode) && about.st_mtime < list->before) {
                list->sizes[list->count] = about.st_size;
                strcpy(list->names[list->count++], name);
            }
            free(entries[i]);
        }
        free(entries);
        if (directory >= 0)
            close(directory);
    }
    list->more = list->count == STORE_BATCH;
    if (list->count)
        snprintf(list->after, sizeof(list->after), "%s", list->names[list->count - 1]);
}

static void directory_remove(void *arg)
{
    struct store_remove *remove = arg;
    char path[STORE_PATH];

    for (; remove->removed < remove->count; remove->removed++) {
        const char *name = remove->names[remove->removed];

        snprintf(path, sizeof(path), "%s/%.2s/%s", remove->job.store->directory, name, name);
        if (unlink(path) && errno != ENOENT) {
            directory_failed(&remove->job, errno);
            return;
        }
    }
}

static void directory_free(struct store *store)
{
    free(store);
}

struct store *store_directory_new(const char *directory)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store)
        *store = (struct store){{directory_keep, directory_open, directory_list, directory_remove},
                                directory_free,
                                directory,
                                DEVICE_POOL};
    return store;
}

/*
 * The store that uses a bucket of an S3 server. An object is stored completely or not at all,
 * because the server compares its content with the hash in the request. A downloaded object is
 * hashed while it is written to an unnamed file, and the file is sent only if the hash matches. All
 * files of a request are stored within one `s3_timeout`, which also covers deleting them after a
 * failure. Only the sweep may take longer.
 *
 * Each thread of the pool uses an HTTP client with one connection. libcurl signs the requests
 * (CURLOPT_AWS_SIGV4). This code sends the content's hash with a PUT. It also encodes the path and
 * sorts the query, because libcurl 7.88 does not. It does not set CURLOPT_PATH_AS_IS, because with
 * this option libcurl 8.14 does not sign. It sends no empty header ("Expect:"), because libcurl
 * would sign the header and not send it.
 */

enum {
    CONNECT_MS = 5000,
    IDLE_S = 60,
    BASE = 1300,
    URL = BASE + 255 + STORE_NAME + 2 + 4096,
    BODY = 4 * 1024 * 1024, /* maximum bytes of a response that is not an object */
    CODE = 64,
    DEPTH_MAX = 16,
    REMOVED_IN_TIME = 100 /* N objects may take 1 + N / 100 times s3_timeout */
};

#define NO_CONTENT "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3 {
    struct store store; /* must be first */
    const struct device_settings *settings;
    char base[BASE];      /* endpoint and bucket: "https://host/bucket" */
    char scope[128];      /* for CURLOPT_AWS_SIGV4 */
    pthread_mutex_t lock; /* guards the next two fields */
    size_t idle_count;    /* clients that no thread uses now */
    struct http_client *idle[STORE_S3_THREADS];
};

struct s3_request {
    struct http_request http;
    char url[URL];
    const char *sha256;      /* of the body sent; NULL: no body */
    int64_t until_ms;        /* monotonic deadline */
    const char *prefix;      /* of the names of busbar's objects */
    struct store_list *list; /* NULL: the response is not a list of objects */

    /* For the XML of the response. Only the text of elements without children is used. */
    XML_Parser parser;
    const char *problem;  /* what is wrong with the list; NULL: nothing */
    char code[CODE];      /* of an error, such as "NoSuchKey"; "": no code, or not safe to log */
    bool truncated, seen; /* the bucket has more names; this page has at least one */
    bool old;             /* the object being read is older than list->before */
    int depth;
    int64_t size;  /* of the object being read */
    size_t length; /* of the open element's text; `text` has only the first bytes of a long one */
    char text[STORE_AFTER], key[STORE_AFTER];
};

static void s3_request(struct s3_request *request, const struct s3 *s3, const char *method,
                       const char *name, int64_t until_ms)
{
    *request = (struct s3_request){
        .http.method = method,
        .until_ms = until_ms ? until_ms : http_clock_ms() + s3->settings->s3_timeout,
        .prefix = s3->settings->s3_prefix,
    };
    snprintf(request->url, URL, "%s/%.255s%.101s", s3->base, request->prefix, name);
}

/* ---- XML: lists of objects, and errors ---- */

static void s3_stop(struct s3_request *request, const char *problem)
{
    request->problem = problem;
    XML_StopParser(request->parser, XML_FALSE);
}

/* Refuses document types, so that no entity can be expanded. */
static void s3_doctype(void *arg, const XML_Char *name, const XML_Char *system,
                       const XML_Char *public, int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    s3_stop(arg, "the list of objects has a document type");
}

static void s3_element_begins(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct s3_request *request = arg;

    (void)attributes;
    request->length = 0;
    if (++request->depth > DEPTH_MAX)
        s3_stop(request, "the list of objects is nested too deeply");
    if (!strcmp(name, "Contents")) {
        request->key[0] = '\0';
        request->old = false;
    }
}

static void s3_element_text(void *arg, const XML_Char *text, int length)
{
    struct s3_request *request = arg;

    if (request->length + (size_t)length < sizeof(request->text))
        memcpy(request->text + request->length, text, (size_t)length);
    request->length += (size_t)length;
}

/* Stores an element's value. At an object's end, lists busbar's objects that are old enough. */
static void s3_element_ends(void *arg, const XML_Char *name)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct s3_request *request = arg;
    struct store_list *list = request->list;
    size_t prefix = strlen(request->prefix);
    struct tm at = {.tm_mday = 1};
    bool whole = request->length < sizeof(request->text);

    request->depth--;
    request->text[whole ? request->length : 0] = '\0';
    request->length = 0;
    if (!strcmp(name, "Code") && !*request->code && !request->text[strspn(request->text, safe)])
        snprintf(request->code, CODE, "%.63s", request->text);
    if (!list)
        return;
    if (!strcmp(name, "Key") && !whole)
        s3_stop(request, "a name in the list of objects is too long");
    else if (!strcmp(name, "Key"))
        memcpy(request->key, request->text, sizeof(request->key));
    else if (!strcmp(name, "LastModified"))
        request->old =
            strptime(request->text, "%Y-%m-%dT%H:%M:%S", &at) && timegm(&at) < list->before;
    else if (!strcmp(name, "Size"))
        request->size = strtoll(request->text, NULL, 10);
    else if (!strcmp(name, "IsTruncated"))
        request->truncated = !strcmp(request->text, "true");
    if (strcmp(name, "Contents") != 0)
        return;
    if (!request->key[0] || list->count == STORE_BATCH) {
        s3_stop(request, "the list of objects has an unexpected entry");
        return;
    }
    request->seen = true;
    memcpy(list->after, request->key, STORE_AFTER);
    if (request->old && !strncmp(request->key, request->prefix, prefix) &&
        store_is_name(request->key + prefix, list->contents)) {
        list->sizes[list->count] = request->size;
        strcpy(list->names[list->count++], request->key + prefix);
    }
}

/* ---- requests ---- */

/*
 * Sends a request. Returns 0 if the response is 2xx and complete, or -1 with the reason in `why`,
 * which a callback of the request may have set.
 */
static int s3_send(struct s3 *s3, struct s3_request *request, char why[STORE_WHY])
{
    struct http_client *client = NULL;
    struct http_request *http = &request->http;
    int64_t left = request->until_ms - http_clock_ms();
    char line[96];

    pthread_mutex_lock(&s3->lock);
    if (s3->idle_count)
        client = s3->idle[--s3->idle_count];
    pthread_mutex_unlock(&s3->lock);
    if (!client)
        client = http_client_new(&(struct http_client_options){
            .authorities = s3->settings->s3_ca, .idle_s = IDLE_S, .connections = 1});
    snprintf(line, sizeof(line), "x-amz-content-sha256: %s",
             request->sha256 ? request->sha256 : NO_CONTENT);
    http->headers = curl_slist_append(NULL, line);
    http->url = request->url;
    http->timeout_ms = left > 0 ? left : 1;
    http->body_max = BODY;
    if (client && http->headers && !http_request_prepare(client, http) &&
        !curl_easy_setopt(http->easy, CURLOPT_USERNAME, s3->settings->s3_access_key) &&
        !curl_easy_setopt(http->easy, CURLOPT_PASSWORD, s3->settings->s3_secret_key) &&
        !curl_easy_setopt(http->easy, CURLOPT_PATH_AS_IS, 0L) &&
        !curl_easy_setopt(http->easy, CURLOPT_AWS_SIGV4, s3->scope) &&
        !curl_easy_setopt(http->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS))
        http_client_perform(client, http);
    http_request_close(http);
    curl_slist_free_all(http->headers);
    pthread_mutex_lock(&s3->lock);
    if (client && s3->idle_count < STORE_S3_THREADS) {
        s3->idle[s3->idle_count++] = client;
        client = NULL;
    }
    pthread_mutex_unlock(&s3->lock);
    http_client_free(client);
    bool refused = http->status >= 300;

    if (refused || (http->ended && http->outcome == HTTP_ANSWERED && request->list)) {
        const char *bytes = request->http.bytes ? request->http.bytes : "";
        XML_Parser parser = request->parser = XML_ParserCreate("UTF-8");
        enum XML_Status status = XML_STATUS_ERROR;

        if (parser) {
            XML_SetUserData(parser, request);
            XML_SetElementHandler(parser, s3_element_begins, s3_element_ends);
            XML_SetCharacterDataHandler(parser, s3_element_text);
            XML_SetStartDoctypeDeclHandler(parser, s3_doctype);
            status = XML_Parse(parser, bytes, (int)request->http.received, 1);
            XML_ParserFree(parser);
        }
        if (status != XML_STATUS_OK && !request->problem)
            request->problem = "the list of objects is not XML";
    }
    free(http->bytes);
    if (*why)
        return -1;
    if (refused)
        snprintf(why, STORE_WHY, "%s: status %d%s%s", http->method, http->status,
                 *request->code ? " " : "", request->code);
    else if (!http->ended)
        snprintf(why, STORE_WHY, "out of memory");
    else if (http->outcome != HTTP_ANSWERED)
        snprintf(why, STORE_WHY, "%s: %.150s", http->method,
                 *http->detail ? http->detail : http->error);
    return *why ? -1 : 0;
}

/* ---- keeping ---- */

static void s3_keep(void *arg)
{
    struct store_keep *keep = arg;
    struct s3 *s3 = (struct s3 *)(void *)keep->job.store;
    char sha256[STORE_SHA256 + 1];
    struct stat about;

    keep->until_ms = http_clock_ms() + s3->settings->s3_timeout;
    for (size_t i = 0; i < keep->count && !*keep->job.why; i++) {
        FILE *file = fopen(keep->paths[i], "re");
        struct s3_request request;

        s3_request(&request, s3, "PUT", keep->names[i], keep->until_ms);
        snprintf(sha256, sizeof(sha256), "%s", keep->names[i]);
        request.sha256 = sha256;
        request.http.file = file;
        if (!file || fstat(fileno(file), &about)) {
            snprintf(keep->job.why, STORE_WHY, "the uploaded file cannot be read");
        } else {
            request.http.length = about.st_size;
            s3_send(s3, &request, keep->job.why);
        }
        if (file)
            (void)fclose(file); /* the file was only read, so this loses no data */
    }
}

/* ---- opening ---- */

struct s3_fetch {
    struct store_open *job;
    EVP_MD_CTX *digest;
    int64_t length;
};

static int s3_fetch_failed(const struct s3_fetch *fetch, const char *reason)
{
    snprintf(fetch->job->job.why, STORE_WHY, "%s", reason);
    return -1;
}

static int s3_fetch_take(void *arg, const char *bytes, size_t length)
{
    struct s3_fetch *fetch = arg;

    fetch->length += (int64_t)length;
    if (fetch->length > fetch->job->length)
        return s3_fetch_failed(fetch, "GET: the object is longer than the stored file");
    if (!EVP_DigestUpdate(fetch->digest, bytes, length))
        return s3_fetch_failed(fetch, "out of memory");
    while (length) {
        ssize_t wrote = write(fetch->job->fd, bytes, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return s3_fetch_failed(fetch, "the object cannot be written to device.documents");
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

static void s3_open(void *arg)
{
    struct store_open *job = arg;
    struct s3 *s3 = (struct s3 *)(void *)job->job.store;
    struct s3_fetch fetch = {.job = job, .digest = EVP_MD_CTX_new()};
    struct s3_request request;
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    char path[STORE_PATH];

    s3_request(&request, s3, "GET", job->name, 0);
    request.http.take = s3_fetch_take;
    request.http.arg = &fetch;
    job->fd = store_incoming(job->job.store, path);
    if (job->fd >= 0)
        unlink(path);
    if (job->fd < 0)
        s3_fetch_failed(&fetch, "device.documents cannot be written");
    else if (!fetch.digest || !EVP_DigestInit_ex(fetch.digest, EVP_sha256(), NULL) ||
             (!s3_send(s3, &request, job->job.why) &&
              !EVP_DigestFinal_ex(fetch.digest, digest, NULL)))
        s3_fetch_failed(&fetch, "out of memory");
    if (!*job->job.why && (fetch.length != job->length || !store_is_named(job->name, digest)))
        s3_fetch_failed(&fetch, "GET: the object differs from the stored file");
    if (*job->job.why && job->fd >= 0) {
        close(job->fd);
        job->fd = -1;
    }
    EVP_MD_CTX_free(fetch.digest);
}

/* ---- listing and removing ---- */

/* Lists objects. The query of the URL is canonical: names are sorted, and values are encoded. */
static void s3_list(void *arg)
{
    struct store_list *list = arg;
    struct s3 *s3 = (struct s3 *)(void *)list->job.store;
    char before[STORE_AFTER], *why = list->job.why;
    struct s3_request request;

    s3_request(&request, s3, "GET", "", 0);
    request.list = list;
    memcpy(before, list->after, sizeof(before));
    char *prefix = curl_easy_escape(NULL, request.prefix, 0);
    char *after = curl_easy_escape(NULL, list->after, 0);

    if (prefix && after) {
        snprintf(request.url, URL, "%s?list-type=2&max-keys=%d&prefix=%s%s%s", s3->base,
                 STORE_BATCH, prefix, *after ? "&start-after=" : "", after);
        s3_send(s3, &request, why);
    } else {
        snprintf(why, STORE_WHY, "out of memory");
    }
    curl_free(prefix);
    curl_free(after);
    list->more = request.truncated && request.seen;
    if (!request.problem && list->more && strcmp(list->after, before) <= 0)
        request.problem = "the list of objects does not advance";
    if (!*why && request.problem)
        snprintf(why, STORE_WHY, "GET: %s", request.problem);
}

static void s3_remove(void *arg)
{
    struct store_remove *remove = arg;
    struct s3 *s3 = (struct s3 *)(void *)remove->job.store;
    int64_t turns = 1 + (int64_t)remove->count / REMOVED_IN_TIME;
    int64_t until_ms =
        remove->until_ms ? remove->until_ms : http_clock_ms() + turns * s3->settings->s3_timeout;

    for (; remove->removed < remove->count; remove->removed++) {
        struct s3_request request;

        s3_request(&request, s3, "DELETE", remove->names[remove->removed], until_ms);
        if (!s3_send(s3, &request, remove->job.why))
            continue;
        if (request.http.status != 404 || strcmp(request.code, "NoSuchKey") != 0)
            return;
        remove->job.why[0] = '\0';
    }
}

/* ---- settings ---- */

/* Returns whether all characters are in `more`, or need no encoding in a URL. */
static bool is_plain(const char *text, const char *more)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    for (; *text; text++)
        if (!strchr(plain, *text) && !strchr(more, *text))
            return false;
    return true;
}

/* Returns whether servers, proxies and libcurl leave the path unchanged. */
static bool is_plain_path(const char *path)
{
    return is_plain(path, "/") && *path != '/' && !strstr(path, "..") && !strstr(path, "//") &&
           strncmp(path, "./", 2) != 0 && !strstr(path, "/./");
}

/* Returns a text about what is wrong with the settings, or NULL if nothing is. */
static const char *s3_settings_problem(const struct device_settings *settings)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *path = NULL, *other = NULL;
    bool is = url &&
              !curl_url_set(url, CURLUPART_URL, settings->s3_endpoint,
                            CURLU_PATH_AS_IS | CURLU_DISALLOW_USER) &&
              !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) &&
              (!strcmp(scheme, "http") || !strcmp(scheme, "https")) &&
              curl_url_get(url, CURLUPART_QUERY, &other, 0) == CURLUE_NO_QUERY &&
              curl_url_get(url, CURLUPART_FRAGMENT, &other, 0) == CURLUE_NO_FRAGMENT &&
              !curl_url_get(url, CURLUPART_PATH, &path, 0) && is_plain_path(path + 1) &&
              path[strlen(path) - 1] != '.';

    curl_free(scheme);
    curl_free(path);
    curl_free(other);
    curl_url_cleanup(url);
    if (!is)
        return "s3_endpoint: must be a URL without user and query, such as https://s3.example.org; "
               "its path must have the form of s3_prefix, and must not end in a dot";
    if (!*settings->s3_bucket || *settings->s3_bucket == '.' || !is_plain(settings->s3_bucket, ""))
        return "s3_bucket: must be the name of a bucket";
    if (!*settings->s3_region || !is_plain(settings->s3_region, ""))
        return "s3_region: must be the name of a region";
    if (!*settings->s3_access_key || !*settings->s3_secret_key)
        return "s3_access_key and s3_secret_key: are required if store is s3";
    if (!is_plain_path(settings->s3_prefix))
        return "s3_prefix: must be letters, digits, '-', '_', '.' and '/', as a path without dots";
    /* check now, because libcurl reports an error only at the first request */
    X509_STORE *store = *settings->s3_ca ? X509_STORE_new() : NULL;
    bool read = !*settings->s3_ca || (store && X509_STORE_load_file(store, settings->s3_ca));

    X509_STORE_free(store);
    ERR_clear_error();
    return read ? NULL : "s3_ca: must be a readable file of certificates (PEM)";
}

static void s3_free(struct store *store)
{
    struct s3 *s3 = (struct s3 *)(void *)store;

    while (s3->idle_count)
        http_client_free(s3->idle[--s3->idle_count]);
    pthread_mutex_destroy(&s3->lock);
    free(s3);
}

struct store *store_s3_new(const struct device_settings *settings, char why[STORE_WHY])
{
    const char *problem = s3_settings_problem(settings);
    struct s3 *s3 = problem ? NULL : calloc(1, sizeof(*s3));
    size_t length = strlen(settings->s3_endpoint);

    if (!s3) {
        snprintf(why, STORE_WHY, "%s", problem ? problem : "out of memory");
        return NULL;
    }
    while (length && settings->s3_endpoint[length - 1] == '/')
        length--;
    s3->store = (struct store){
        {s3_keep, s3_open, s3_list, s3_remove}, s3_free, settings->documents, DEVICE_S3_POOL};
    s3->settings = settings;
    snprintf(s3->base, sizeof(s3->base), "%.*s/%s", (int)length, settings->s3_endpoint,
             settings->s3_bucket);
    snprintf(s3->scope, sizeof(s3->scope), "aws:amz:%s:s3", settings->s3_region);
    pthread_mutex_init(&s3->lock, NULL);
    return &s3->store;
}
