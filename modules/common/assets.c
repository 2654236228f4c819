#include "modules/common/assets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/common/hash.h"

enum { ASSET_MAX = 16 * 1024 * 1024, ASSETS_MAX = 4096 };

enum asset_form { ASSET_PLAIN, ASSET_GZIP, ASSET_BROTLI, ASSET_FORMS };

struct asset_bytes {
    char *data; /* malloc'ed; NULL: the file has no version in this form */
    size_t length;
};

struct asset {
    struct asset *next;
    char *name;
    bool hashed; /* a file below assets/, whose name has a hash of the content */
    char tag[20];
    struct asset_bytes forms[ASSET_FORMS];
};

struct assets {
    struct asset *first;
    size_t count;
};

static bool assets_is_name_of(const char *name, const char *end)
{
    size_t length = strlen(name), own = strlen(end);

    return length > own && !strcmp(name + length - own, end);
}

/* Reads a file. Returns 0, 1 if it does not exist, or -1 if it cannot be read. */
static int assets_read_file(int directory, const char *name, struct asset_bytes *bytes)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat found;

    if (fd < 0)
        return errno == ENOENT ? 1 : -1;
    int failed = fstat(fd, &found) || !S_ISREG(found.st_mode) || found.st_size > ASSET_MAX;

    if (!failed) {
        bytes->length = (size_t)found.st_size;
        bytes->data = malloc(bytes->length + 1);
        failed = !bytes->data || read(fd, bytes->data, bytes->length) != found.st_size;
    }
    close(fd);
    return failed ? -1 : 0;
}

static int assets_add(struct assets *assets, int directory, const char *name, bool hashed)
{
    static const char *const ends[ASSET_FORMS] = {"", ".gz", ".br"};
    char path[NAME_MAX + 8];
    struct asset *asset = calloc(1, sizeof(*asset));

    if (!asset)
        return -1;
    asset->next = assets->first;
    assets->first = asset;
    asset->hashed = hashed;
    asset->name = strdup(name);
    if (++assets->count > ASSETS_MAX || !asset->name)
        return -1;
    for (int form = 0; form < ASSET_FORMS; form++) {
        snprintf(path, sizeof(path), "%s%s", name, ends[form]);
        int failed = assets_read_file(directory, path, &asset->forms[form]);

        if (failed < 0 || (failed && form == ASSET_PLAIN))
            return -1;
    }
    const struct asset_bytes *plain = &asset->forms[ASSET_PLAIN];

    /* the tag is a hash of the content */
    snprintf(asset->tag, sizeof(asset->tag), "%016" PRIx64,
             hash_bytes(HASH_SEED, plain->data, plain->length));
    return 0;
}

static int assets_add_all(struct assets *assets, const char *directory, bool hashed)
{
    DIR *list = opendir(directory);
    struct dirent *entry;
    int failed = 0;

    if (!list)
        return -1;
    while (!failed && (errno = 0, entry = readdir(list)) != NULL)
        if (entry->d_type == DT_REG && !assets_is_name_of(entry->d_name, ".br") &&
            !assets_is_name_of(entry->d_name, ".gz"))
            failed = assets_add(assets, dirfd(list), entry->d_name, hashed);
    failed |= errno;
    closedir(list);
    return failed ? -1 : 0;
}

int assets_open(struct bb_host *host, const char *own, const char *installed, const char *where,
                struct assets **assets)
{
    const char *directory = *own ? own : installed;
    char inner[PATH_MAX];

    if (access(directory, F_OK) && errno == ENOENT) {
        bb_host_log(host, BB_WARN, "%s has no pages: %s: %s", where, directory, strerror(errno));
        return 0;
    }
    snprintf(inner, sizeof(inner), "%s/assets", directory);
    *assets = calloc(1, sizeof(**assets));
    if (*assets && !assets_add_all(*assets, directory, false) &&
        !assets_add_all(*assets, inner, true))
        return 0;
    int failed = bb_open_fail(host, "%s cannot be read: %s", directory,
                              errno ? strerror(errno) : "too many files, or a file is too large");

    assets_free(*assets);
    *assets = NULL;
    return failed;
}

void assets_free(struct assets *assets)
{
    struct asset *asset = assets ? assets->first : NULL;

    while (asset) {
        struct asset *next = asset->next;

        for (int form = 0; form < ASSET_FORMS; form++)
            free(asset->forms[form].data);
        free(asset->name);
        free(asset);
        asset = next;
    }
    free(assets);
}

/* ---- responses ---- */

/* Allows pages to load resources from this host only, and images from data: and blob: URLs. */
#define POLICY                                                                                     \
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none';"          \
    " form-action 'self'; frame-ancestors 'none'"

static const char *assets_type(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".woff2", "font/woff2"},
        {".json", "application/json"},
        {".txt", "text/plain; charset=utf-8"},
        {".webmanifest", "application/manifest+json"},
    };
    const char *end = strrchr(name, '.');

    for (size_t i = 0; end && i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(end, types[i][0]))
            return types[i][1];
    return "application/octet-stream";
}

/*
 * Returns the weight of a coding in Accept-Encoding, 0 to 1, or -1 if the list does not have it
 * (RFC 9110, 12.5.3).
 */
static double assets_weight(const char *list, const char *coding)
{
    size_t length = strlen(coding);

    while (list && *list) {
        list += strspn(list, " \t,");
        size_t own = strcspn(list, " \t,;"), whole = strcspn(list, ",");
        const char *parameter = memchr(list, ';', whole);

        if (own == length && !strncasecmp(list, coding, length)) {
            if (!parameter)
                return 1;
            parameter += 1 + strspn(parameter + 1, " \t");
            double q = strncasecmp(parameter, "q=", 2) ? 1 : strtod(parameter + 2, NULL);

            return q > 1 ? 1 : q > 0 ? q : 0;
        }
        list += whole;
    }
    return -1;
}

bool assets_known(struct bb_request *rq, const char *tag)
{
    const char *known = bb_header(rq, "If-None-Match");

    return known && (!strcmp(known, "*") || strstr(known, tag));
}

const struct bb_field assets_segments[] = {
    {.name = "file",
     .type = BB_TEXT,
     .flags = BB_VERBATIM,
     .min = 1,
     .max = 255,
     .help = "Name of the file."},
};
const int assets_errors[] = {304, 404, 0}; /* 404 also if the pages are not installed */

int assets_reply(struct bb_request *rq, const struct assets *assets)
{
    static const char *const codings[ASSET_FORMS] = {"identity", "gzip", "br"};
    const struct asset *asset = assets ? assets->first : NULL;
    const char *file = bb_segment(rq, "file"), *name = *file ? file : "index.html";

    while (asset && (asset->hashed != (*file != '\0') || strcmp(asset->name, name) != 0))
        asset = asset->next;
    if (!asset)
        return bb_fail(rq, 404, "File not found");
    /* the form that the client prefers; of equally preferred forms br, or else gzip */
    const char *list = bb_header(rq, "Accept-Encoding");
    double any = assets_weight(list, "*"), best = 0;
    enum asset_form form = ASSET_PLAIN;

    for (int i = ASSET_PLAIN; list && i < ASSET_FORMS; i++) {
        double own = assets_weight(list, codings[i]);

        own = own < 0 ? any : own;
        if (asset->forms[i].data && own > 0 && own >= best) {
            best = own;
            form = (enum asset_form)i;
        }
    }
    const char *tag = bb_format(rq, "\"%s-%d\"", asset->tag, (int)form);
    int failed =
        bb_reply_header(rq, "ETag", tag) | bb_reply_header(rq, "Vary", "Accept-Encoding") |
        bb_reply_header(rq, "Referrer-Policy", "no-referrer") |
        bb_reply_header(rq, "Content-Security-Policy", POLICY) |
        bb_reply_header(rq, "X-Frame-Options", "DENY") |
        bb_reply_header(rq, "Cross-Origin-Opener-Policy", "same-origin") |
        bb_reply_header(rq, "Cache-Control",
                        asset->hashed ? "public, max-age=31536000, immutable" : "no-cache");

    if (failed || (form != ASSET_PLAIN && bb_reply_header(rq, "Content-Encoding", codings[form])))
        return bb_fail(rq, 503, "Out of memory");
    if (assets_known(rq, tag))
        return bb_reply(rq, 304, NULL);
    return bb_reply_bytes(rq, 200, assets_type(name), asset->forms[form].data,
                          asset->forms[form].length);
}
