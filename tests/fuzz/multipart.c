/* A multipart body: the result does not depend on how it is cut, and is text where it must be. */
#include "core/lib/multipart.h"

#include <string.h>

#include "fuzz/fuzz.h"

/* The result as a hash of every byte in its place, and the parser's position. */
struct heard {
    uint64_t hash;
    size_t parts, ended, bytes;
};

static void hear(struct heard *heard, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        heard->hash = (heard->hash ^ at[i]) * UINT64_C(1099511628211);
}

static int part(void *arg, const struct multipart_part *head)
{
    struct heard *heard = arg;

    must(heard->parts == heard->ended && head->name && *head->name);
    heard->parts++;
    hear(heard, head->name, strlen(head->name) + 1);
    if (head->filename)
        hear(heard, head->filename, strlen(head->filename) + 1);
    if (head->type)
        hear(heard, head->type, strlen(head->type) + 1);
    return 0;
}

static int data(void *arg, const char *bytes, size_t length)
{
    struct heard *heard = arg;

    must(heard->parts == heard->ended + 1 && length > 0);
    heard->bytes += length;
    hear(heard, bytes, length);
    return 0;
}

static int end(void *arg)
{
    struct heard *heard = arg;

    must(heard->parts == ++heard->ended);
    hear(heard, "", 1);
    return 0;
}

/* Returns 1: parsed to the end; 0: malformed or cut off. */
static int parse(const uint8_t *bytes, size_t size, size_t piece, struct heard *heard)
{
    static const struct multipart_calls calls = {part, data, end};
    struct multipart multipart;
    int failed = 0;

    *heard = (struct heard){.hash = UINT64_C(14695981039346656037)};
    must(!multipart_init(&multipart, "XyZ", &calls, heard));
    for (size_t at = 0; at < size && !failed; at += piece) {
        size_t length = size - at < piece ? size - at : piece;
        char *copy = malloc(length);

        must(copy != NULL);
        memcpy(copy, bytes + at, length);
        failed = multipart_feed(&multipart, copy, length);
        free(copy);
    }
    must(!failed || multipart.problem);
    int whole = !failed && multipart_complete(&multipart);

    multipart_free(&multipart);
    return whole;
}

static void find_boundary(const uint8_t *bytes, size_t size)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    char *text = malloc(size + 1);

    must(text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    if (multipart_boundary(text, boundary) == 1)
        must(*boundary && strlen(boundary) <= MULTIPART_BOUNDARY_MAX);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct heard once, pieces;

    if (!size)
        return 0;
    int whole = parse(bytes + 1, size - 1, size, &once);

    must(parse(bytes + 1, size - 1, bytes[0] % 67 + 1U, &pieces) == whole);
    must(once.parts == pieces.parts && once.ended == pieces.ended);
    must(!whole || (once.hash == pieces.hash && once.bytes == pieces.bytes));
    must(!whole || once.parts == once.ended);
    find_boundary(bytes, size);
    return 0;
}
