/* Internals of assets.h: the files in memory. */
#ifndef COMMON_ASSETS_LIST_H
#define COMMON_ASSETS_LIST_H

#include "modules/common/assets.h"

enum asset_form { ASSET_PLAIN, ASSET_GZIP, ASSET_BROTLI, ASSET_FORMS };

struct asset_bytes {
    char *data; /* malloc'ed; NULL: the file has no such form */
    size_t length;
};

struct asset {
    struct asset *next;
    char *name;
    bool hashed; /* its name changes with its content */
    char tag[20];
    struct asset_bytes forms[ASSET_FORMS];
};

struct assets {
    struct asset *first;
    size_t count;
};

#endif
