#include "modules/device/store/store.h"

#include <string.h>

enum { UUID = 36 };

void store_keep(void *arg)
{
    struct store_keep *keep = arg;

    keep->begun = 0;
    keep->until_ms = 0;
    keep->why[0] = '\0';
    keep->store->calls->keep(keep);
}

void store_open(void *arg)
{
    struct store_open *open = arg;

    open->fd = -1;
    open->why[0] = '\0';
    open->store->calls->open(open);
}

void store_list(void *arg)
{
    struct store_list *list = arg;

    list->count = 0;
    list->more = false;
    list->why[0] = '\0';
    list->store->calls->list(list);
}

void store_remove(void *arg)
{
    struct store_remove *remove = arg;

    remove->removed = 0;
    remove->why[0] = '\0';
    remove->store->calls->remove(remove);
}

void store_free(struct store *store)
{
    if (store)
        store->calls->free(store);
}

bool store_is_name(const char *text)
{
    size_t length = strlen(text);

    if (length < STORE_SHA256 || strspn(text, "0123456789abcdef") != STORE_SHA256)
        return false;
    return length == STORE_SHA256 || (length == STORE_NAME - 1 && text[STORE_SHA256] == '-' &&
                                      strspn(text + STORE_SHA256 + 1, "0123456789abcdef-") == UUID);
}
