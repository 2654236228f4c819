/* GET of a device's documents: the list, and the content of one document as an attachment. */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "modules/device/record/device.h"
#include "modules/device/store/store.h"

enum { NAME_BYTES = 120 /* of a name in a header, before encoding */ };

static const struct bb_sql by_id = {
    "SELECT name, type, coalesce(object, encode(sha256, 'hex')), size FROM device_document"
    " WHERE id = $1::uuid AND device = $2::bigint",
    0,
};

/* Returns the name without a path. A long name keeps only its end, which has the extension. */
static const char *last_part(const char *name)
{
    for (const char *at = name; *at; at++)
        if (*at == '/' || *at == '\\')
            name = at + 1;
    size_t length = strlen(name);

    if (length > NAME_BYTES)
        name += length - NAME_BYTES;
    while (((unsigned char)*name & 0xc0) == 0x80)
        name++;
    return name;
}

/* Characters that change text direction: U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. */
static bool turns(const unsigned char *at)
{
    if (at[0] != 0xe2)
        return false;
    return (at[1] == 0x80 &&
            (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae))) ||
           (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

/* Control characters: C0, DEL, and the first byte of C1. */
static bool controls(const unsigned char *at)
{
    return *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
}

/* filename for old clients, filename* (RFC 8187) for others. */
static const char *disposition(struct bb_request *rq, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *at = (const unsigned char *)last_part(name);
    char *plain = bb_alloc(rq, NAME_BYTES + 1), *coded = bb_alloc(rq, 3 * NAME_BYTES + 1);
    char *to = plain, *code = coded;

    for (; *at; at++) {
        if (turns(at) || controls(at)) {
            at += turns(at) ? 2 : *at == 0xc2;
            continue;
        }
        if (to == plain && strchr(". ", *at)) /* avoid hidden and misleading names */
            continue;
        bool safe = *at < 0x80 && (isalnum(*at) || strchr("._-", *at));

        *to++ = (char)(safe || *at == ' ' ? *at : '_');
        if (safe) {
            *code++ = (char)*at;
            continue;
        }
        *code++ = '%';
        *code++ = digits[*at >> 4];
        *code++ = digits[*at & 15];
    }
    if (to == plain)
        return "attachment; filename=\"document\"";
    return bb_format(rq, "attachment; filename=\"%s\"; filename*=UTF-8''%s", plain, coded);
}

static int send(struct bb_request *rq, const char *name, const char *type, const char *object,
                int64_t length)
{
    const struct device *state = rq->state;
    struct store_open open = {.store = state->store, .name = object, .length = length, .fd = -1};

    if (device_store_call(rq, CALL_OPEN, store_open, &open, open.why))
        return bb_failed(rq);
    if (open.fd < 0) {
        bb_log(rq, BB_ERROR, "document %s cannot be read: %s", object, open.why);
        return bb_fail(rq, 503, "The document cannot be read now");
    }
    if (bb_reply_header(rq, "Content-Type", type) < 0 ||
        bb_reply_header(rq, "Content-Disposition", disposition(rq, name)) < 0 ||
        bb_reply_header(rq, "Content-Security-Policy", "default-src 'none'; sandbox") < 0) {
        close(open.fd);
        return bb_failed(rq);
    }
    return bb_reply_file(rq, open.fd, length);
}

int device_download(struct bb_request *rq)
{
    struct device_record record;
    int refused =
        device_find(rq, bb_segment(rq, "externalId"), bb_arg_int(rq, "organizationId", 0), &record);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &by_id, BB_ARGS(bb_t(bb_segment(rq, "documentId")), bb_i(record.id)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Document not found");
    return send(rq, bb_cell(rq, rows, 0, 0), bb_cell(rq, rows, 0, 1), bb_cell(rq, rows, 0, 2),
                bb_cell_int(rq, rows, 0, 3));
}

int device_documents_list(struct bb_request *rq)
{
    struct device_record record;
    int refused =
        device_find(rq, bb_segment(rq, "externalId"), bb_arg_int(rq, "organizationId", 0), &record);

    return refused ? refused : bb_reply(rq, 200, bb_json_read(rq, record.documents));
}
