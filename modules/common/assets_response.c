/* Files that browsers get, as answers. */
#include "modules/common/assets_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Scripts, styles and connections of this host alone; pictures that styles hold as text, too. */
#define POLICY                                                                                     \
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none';"          \
    " form-action 'self'; frame-ancestors 'none'"

static const char *type_of(const char *name)
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

/* Whether a list of codings has this one, and not with a quality of 0. */
static bool takes(const char *list, const char *coding)
{
    size_t length = strlen(coding);

    while (list && *list) {
        list += strspn(list, " \t,");
        size_t own = strcspn(list, " \t,;");
        size_t whole = strcspn(list, ",");

        if (own == length && !strncasecmp(list, coding, length)) {
            const char *quality = memmem(list, whole, "q=", 2);

            return !quality || strtod(quality + 2, NULL) > 0;
        }
        list += whole;
    }
    return false;
}

static enum asset_form form_for(struct bb_request *rq, const struct asset *asset)
{
    const char *list = bb_header(rq, "Accept-Encoding");

    if (asset->forms[ASSET_BROTLI].data && takes(list, "br"))
        return ASSET_BROTLI;
    return asset->forms[ASSET_GZIP].data && takes(list, "gzip") ? ASSET_GZIP : ASSET_PLAIN;
}

static int put_headers(struct bb_request *rq, const struct asset *asset, enum asset_form form,
                       const char *tag)
{
    static const char *const codings[ASSET_FORMS] = {NULL, "gzip", "br"};
    int failed =
        bb_reply_header(rq, "ETag", tag) | bb_reply_header(rq, "Vary", "Accept-Encoding") |
        bb_reply_header(rq, "Referrer-Policy", "no-referrer") |
        bb_reply_header(rq, "Content-Security-Policy", POLICY) |
        bb_reply_header(rq, "X-Frame-Options", "DENY") |
        bb_reply_header(rq, "Cross-Origin-Opener-Policy", "same-origin") |
        bb_reply_header(rq, "Cache-Control",
                        asset->hashed ? "public, max-age=31536000, immutable" : "no-cache");

    return failed | (codings[form] ? bb_reply_header(rq, "Content-Encoding", codings[form]) : 0);
}

static int answer(struct bb_request *rq, const struct assets *assets, const char *name, bool hashed)
{
    const struct asset *asset = assets ? assets->first : NULL;
    const char *known = bb_header(rq, "If-None-Match");

    while (asset && (asset->hashed != hashed || strcmp(asset->name, name) != 0))
        asset = asset->next;
    if (!asset)
        return bb_fail(rq, 404, "There is no such file");
    enum asset_form form = form_for(rq, asset);
    const char *tag = bb_format(rq, "\"%s-%d\"", asset->tag, (int)form);

    if (put_headers(rq, asset, form, tag))
        return bb_fail(rq, 503, "Out of memory");
    if (known && strstr(known, tag))
        return bb_reply(rq, 304, NULL);
    return bb_reply_bytes(rq, 200, type_of(name), asset->forms[form].data,
                          asset->forms[form].length);
}

int assets_page(struct bb_request *rq, const struct assets *assets, const char *name)
{
    return answer(rq, assets, name, false);
}

int assets_file(struct bb_request *rq, const struct assets *assets, const char *name)
{
    return answer(rq, assets, name, true);
}
