/* The document as the texts that are sent, each with an entity tag. */
#include "docs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/hash.h"

/* A different document has a different tag. */
static void make_tag(struct docs_text *text)
{
    snprintf(text->tag, sizeof(text->tag), "\"%016" PRIx64 "\"",
             hash_bytes(HASH_SEED, text->bytes, text->length));
}

static void drop(struct docs_text *text)
{
    free(text->bytes);
    *text = (struct docs_text){0};
}

int docs_make(struct bb_host *host, struct docs *docs)
{
    json_t *document = docs_document(host);
    char *json = document ? json_dumps(document, JSON_COMPACT) : NULL;

    docs->json = (struct docs_text){.bytes = json, .length = json ? strlen(json) : 0};
    if (!json || docs_yaml(document, &docs->yaml)) {
        drop(&docs->json);
        drop(&docs->yaml);
    }
    json_decref(document);
    make_tag(&docs->json);
    make_tag(&docs->yaml);
    return docs->json.bytes ? 0 : -1;
}
