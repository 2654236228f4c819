/* Sends an array page by page; each page is a piece (pieces.h). */
#include "modules/common/array.h"

#include <stdlib.h>
#include <string.h>

#include "modules/common/pieces.h"

enum {
    READY_BYTES = 64 * 1024, /* that may wait for the client before a page is read */
    FIRST_ROOM = 4096
};

struct sending {
    struct slots *slots;
    int64_t account; /* holds a slot for this account */
    struct array_source source;
    bool begun; /* items have been sent */
};

/* ---- text ---- */

static void put(struct array_text *text, const char *before, const char *bytes, size_t length)
{
    size_t begin = strlen(before), all = text->length + begin + length;
    size_t room = text->room ? text->room : FIRST_ROOM;

    while (room < all)
        room *= 2;
    char *longer = room > text->room ? realloc(text->bytes, room) : text->bytes;

    if (!longer) {
        text->failed = true;
        return;
    }
    text->bytes = longer;
    text->room = room;
    memcpy(longer + text->length, before, begin);
    memcpy(longer + text->length + begin, bytes, length);
    text->length = all;
    text->begun = true;
}

void array_text_add(struct bb_request *rq, struct array_text *text, json_t *item)
{
    size_t length = 0;
    const char *json = item ? bb_json(rq, item, &length) : NULL;

    json_decref(item);
    if (json)
        put(text, text->begun ? "," : "[", json, length);
    else
        text->failed = true;
}

/* ---- pages ---- */

static void drop(struct bb_host *host, void *arg)
{
    struct sending *sending = arg;

    (void)host;
    slot_release(sending->slots, sending->account);
    sending->source.free(sending->source.arg);
    free(sending);
}

static void drop_text(void *arg)
{
    struct array_text *text = arg;

    free(text->bytes);
}

static enum pieces_next send_page(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    struct sending *sending = arg;
    struct array_text *text = bb_alloc(rq, sizeof(*text));

    text->begun = sending->begun;
    bb_defer(rq, drop_text, text);
    int more = sending->source.read(rq, text, sending->source.arg);

    if (more == 0)
        put(text, text->begun ? "]" : "[]", "", 0);
    if (more < 0 || text->failed || pieces_send(pieces, text->bytes, text->length))
        return PIECES_CUT;
    sending->begun = text->begun;
    return more ? PIECES_MORE : PIECES_WHOLE;
}

/* ---- starting ---- */

int array_send(struct bb_request *rq, struct slots *slots, const struct array_source *source)
{
    static const struct pieces_source pieces = {.type = "application/json; charset=utf-8",
                                                .ready = READY_BYTES,
                                                .work = send_page,
                                                .drop = drop};
    struct sending *sending = calloc(1, sizeof(*sending));

    if (!sending) {
        slot_release(slots, rq->principal->account);
        source->free(source->arg);
        return bb_no_memory(rq);
    }
    sending->slots = slots;
    sending->account = rq->principal->account;
    sending->source = *source;
    return pieces_begin(rq, &pieces, sending, "", 0);
}

int array_send_copy(struct bb_request *rq, struct slots *slots,
                    int (*read)(struct bb_request *, struct array_text *, void *), const void *from,
                    size_t size)
{
    int refused = slot_await(rq, slots);
    void *copy = refused ? NULL : malloc(size);

    if (refused)
        return refused;
    if (!copy) {
        slot_release(slots, rq->principal->account);
        return bb_no_memory(rq);
    }
    memcpy(copy, from, size);
    return array_send(rq, slots, &(struct array_source){read, free, copy});
}
