#ifndef BUSBAR_FIELD_H
#define BUSBAR_FIELD_H 
#include <busbar/abi.h>
enum bb_type {
    BB_TEXT = 1,
    BB_EMAIL,
    BB_UUID,
    BB_INT,
    BB_NUMBER,
    BB_BOOL,
    BB_TIME,
    BB_CHOICE,
    BB_OBJECT,
    BB_LIST,
    BB_ANY
};
enum bb_field_flags {
    BB_REQUIRED = 1,
    BB_NULLABLE = 2,
    BB_NOT_BLANK = 4,
    BB_SECRET = 8,
    BB_RELOADABLE = 16,
    BB_RESTART = 32,
    BB_AS_SENT = 64,
    BB_VERBATIM = 128,
    BB_NAME = 256,
    BB_EMPTY = 512,
    BB_NFKC = 1024,
    BB_MILLISECONDS = 2048,
    BB_SECONDS = 4096,
    BB_MINUTES = 8192,
    BB_HOURS = 16384,
    BB_DAYS = 32768,
    BB_CLEARS = 65536
};
struct bb_bind {
    uint32_t offset, size;
};
#define BB_BIND(type,member) \
    { \
        offsetof(type, member), sizeof(((type *)0)->member) \
    }
struct bb_field {
    const char *name;
    enum bb_type type;
    unsigned flags;
    int64_t min, max;
    const char *const *choices;
    struct bb_table fields;
    const char *alias;
    const char *fallback;
    const char *help;
    const char *example;
    struct bb_bind bind;
};
#endif
