/*
 * Field tables: one definition of the allowed values of a field. The same row validates a JSON
 * body, a query, a path segment, a setting or a command's option, writes the error message, and
 * documents the field.
 *
 * Requests are read tolerantly. White space around a value is removed, a decimal string is accepted
 * for a number and a whole number for a string. For a field that is not required, "" is treated as
 * absent (except with BB_EMPTY), and null is treated as absent with BB_NULLABLE. The `warnings` of
 * the response report such changes. Texts with BB_VERBATIM or BB_SECRET keep their white space,
 * secrets are not converted from numbers, and BB_ANY is passed as sent, except that "" is absent
 * with BB_NULLABLE. Settings and options must match their type exactly.
 *
 * People distinguish accounts and organizations by how their names look. Therefore e-mails and
 * texts with BB_NAME are refused if they contain control characters, invisible characters,
 * directional marks, or unassigned or private-use code points, or if they are not in NFC. E-mails
 * are passed with Unicode case folding and with the domain as an A-label (xn--bcher-kva.example);
 * other names are passed with single spaces. Compare such names with busbar_fold(), an SQL function
 * in every busbar database. An e-mail that identifies a new account has BB_NFKC: it must not
 * contain compatibility characters, such as full-width letters.
 */
#ifndef BUSBAR_FIELD_H
#define BUSBAR_FIELD_H

#include <ctype.h>

#include <busbar/abi.h>

enum bb_type {
    BB_TEXT = 1, /* string; min and max count characters (code points) */
    BB_EMAIL,    /* e-mail address, at most 254 bytes; checked like BB_NAME and case-folded */
    BB_UUID,     /* 8-4-4-4-12 hexadecimal digits; passed in lower case */
    BB_INT,      /* whole number in min..max (both 0: any int64) */
    BB_NUMBER,   /* finite number in min..max (both 0: any) */
    BB_BOOL,
    BB_TIME,   /* ISO 8601 date-time with offset or Z, or a date */
    BB_CHOICE, /* one of `choices`, compared exactly */
    BB_OBJECT, /* object; `fields` describes its members (none: any members, passed as sent) */
    BB_LIST,   /* array; min and max count items; `fields`, if set, has one row for all items */
    BB_ANY     /* any JSON value */
};

enum bb_field_flags {
    BB_REQUIRED = 1,    /* if the field is absent, the error is "is required" */
    BB_NULLABLE = 2,    /* JSON null is treated as absent */
    BB_NOT_BLANK = 4,   /* text: must contain something other than white space */
    BB_SECRET = 8,      /* never logged, never repeated in an error */
    BB_RELOADABLE = 16, /* settings: a reload may change it (the default for a module's settings) */
    BB_RESTART = 32,    /* settings: a reload that changes it is refused */
    BB_AS_SENT = 64,    /* the value (of a BB_LIST: each item) is passed as sent and not checked */
    BB_VERBATIM = 128,  /* white space at the ends of the text is not removed */
    BB_NAME = 256,      /* the text identifies a person or thing, see the top of this file */
    BB_EMPTY = 512,     /* optional text: "" is a value and does not mean absent */
    BB_NFKC = 1024,     /* an e-mail that must also be in NFKC, see the top of this file */

    /*
     * The unit of a setting that is a duration or a list of durations. In the settings file, a
     * value may have another unit, such as 5s or 2m, which the host converts.
     */
    BB_MILLISECONDS = 2048,
    BB_SECONDS = 4096,
    BB_MINUTES = 8192,
    BB_HOURS = 16384,
    BB_DAYS = 32768,

    /*
     * In a body, JSON null is passed as null instead of being treated as absent, so that a PATCH
     * can clear the field (RFC 7396). bb_text() and bb_given_int() still treat null as absent.
     */
    BB_CLEARS = 65536,

    /*
     * Payloads of events: marks the integer or text that identifies the object of the event, such
     * as `conversationId`, or `id` in an object `conversation`. Webhooks with `ordering` get the
     * events of one object in order. A payload has at most one such field.
     */
    BB_KEY = 131072,

    /* in `reply` of a route with BB_VERSIONED: a field that is not part of the ETag */
    BB_VOLATILE = 262144
};

/*
 * Names the member of the module's settings struct to which a setting is bound, see bb_settings().
 * The member's type is `const char *` for texts, e-mails, UUIDs, times and choices (NULL: absent),
 * int64_t for BB_INT, double for BB_NUMBER, bool for BB_BOOL, and json_t * for BB_OBJECT, BB_LIST
 * and BB_ANY (NULL: absent). Absent numbers and booleans are 0 and false.
 */
struct bb_bind {
    uint32_t offset, size; /* bytes; size 0: not bound */
};

/* .bind = BB_BIND(struct hello_settings, greeting) */
#define BB_BIND(type, member)                                                                      \
    {                                                                                              \
        offsetof(type, member), sizeof(((type *)0)->member)                                        \
    }

struct bb_field {
    const char *name;
    enum bb_type type;
    unsigned flags;             /* enum bb_field_flags */
    int64_t min, max;           /* both 0: only the type's own bounds */
    const char *const *choices; /* BB_CHOICE: NULL-terminated */
    struct bb_table fields;     /* BB_OBJECT, BB_LIST: struct bb_field */
    const char *alias;          /* another name that clients may use, or NULL */
    const char *fallback;       /* the value of an absent field, as text; NULL: none */
    const char *help;           /* one sentence for the reference */
    const char *example;        /* for the reference, or NULL */
    struct bb_bind bind;        /* rows of the module's table `settings` only */
};

/*
 * Describe a list of objects, and a reply that is such a list, by the fields of an object:
 * {.name = "reads", .type = BB_LIST, .fields = BB_ITEMS(read)}, .reply = BB_ARRAY_OF(read)
 */
#define BB_ITEMS(object)                                                                           \
    BB_TABLE(((const struct bb_field[]){                                                           \
        {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(object)}}))
#define BB_ARRAY_OF(object)                                                                        \
    BB_TABLE(                                                                                      \
        ((const struct bb_field[]){{.name = ".", .type = BB_LIST, .fields = BB_ITEMS(object)}}))

/* Returns whether the text has the form of BB_UUID, in upper or lower case. */
static inline bool bb_is_uuid(const char *text)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return text[36] == '\0';
}

#endif
