/* The responses with files for browsers. */
#include "modules/common/assets_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Allows only scripts, styles and connections of this host; pictures may also be embedded in
 * styles.
 */
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

/*
 * Returns the weight of a coding in Accept-Encoding, 0 to 1; -1 if it is not in the list (RFC 9110,
 * 12.5.3).
 */
static double weight(const char *list, const char *coding)
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

/* Returns the form that the client prefers; among equally preferred forms the smallest. */
static enum asset_form form_for(struct bb_request *rq, const struct asset *asset)
{
    static const char *const codings[ASSET_FORMS] = {"identity", "gzip", "br"};
    const char *list = bb_header(rq, "Accept-Encoding");
    double any = weight(list, "*"), best = 0;
    enum asset_form form = ASSET_PLAIN;

    for (int i = ASSET_PLAIN; list && i < ASSET_FORMS; i++) {
        double own = weight(list, codings[i]);

        own = own < 0 ? any : own;
        if (asset->forms[i].data && own > 0 && own >= best) {
            best = own;
            form = (enum asset_form)i;
        }
    }
    return form;
}

bool assets_known(struct bb_request *rq, const char *tag)
{
    const char *known = bb_header(rq, "If-None-Match");

    return known && (!strcmp(known, "*") || strstr(known, tag));
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

    while (asset && (asset->hashed != hashed || strcmp(asset->name, name) != 0))
        asset = asset->next;
    if (!asset)
        return bb_fail(rq, 404, "There is no such file");
    enum asset_form form = form_for(rq, asset);
    const char *tag = bb_format(rq, "\"%s-%d\"", asset->tag, (int)form);

    if (put_headers(rq, asset, form, tag))
        return bb_fail(rq, 503, "Out of memory");
    if (assets_known(rq, tag))
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
