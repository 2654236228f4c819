/*
 * Field tables: one definition of what a value may be. The same row validates a JSON body, a
 * query, a path segment, a setting or a command's option, words the error, and documents the field.
 *
 * Requests are taken as clients send them. White space around a value is cut off, a decimal string
 * is taken for a number and a whole number for a string, and where a field is not required, "" is
 * absent (not with BB_EMPTY), as null is with BB_NULLABLE; answers say so in `warnings`. Texts with
 * BB_VERBATIM or BB_SECRET keep their white space, a secret is never a number, BB_ANY is as sent
 * but for "" with BB_NULLABLE. Settings and options are taken as they are.
 *
 * People tell accounts and organisations apart by looking at them. So e-mails and texts with
 * BB_NAME are refused with control characters, invisible characters, marks of direction, characters
 * that Unicode has not assigned or leaves to private use, and in another form than NFC. E-mails are
 * handed over with their case folded by Unicode's rules and their domain as an A-label
 * (xn--bcher-kva.example), other names with single spaces; compare those by busbar_fold(), a
 * function of the database that every busbar has. An e-mail by which an account is made has
 * BB_NFKC: it must not have characters that Unicode calls compatible with others, such as
 * full-width letters.
 */
#ifndef BUSBAR_FIELD_H
#define BUSBAR_FIELD_H

#include <busbar/abi.h>

enum bb_type {
    BB_TEXT = 1, /* string; min and max count characters (code points) */
    BB_EMAIL,    /* e-mail address, at most 254 bytes; as with BB_NAME, handed over folded */
    BB_UUID,     /* 8-4-4-4-12 hexadecimal digits; handed over in lower case */
    BB_INT,      /* whole number in min..max (both 0: any int64) */
    BB_NUMBER,   /* finite number in min..max (both 0: any) */
    BB_BOOL,
    BB_TIME,   /* ISO 8601 date-time with offset or Z, or a date */
    BB_CHOICE, /* one of `choices`, compared exactly */
    BB_OBJECT, /* object; `fields` says which members (no fields: any, kept as sent) */
    BB_LIST,   /* array; min and max count items; `fields`, if given, has one row: the item's */
    BB_ANY     /* any JSON value */
};

enum bb_field_flags {
    BB_REQUIRED = 1,    /* absent: "is required" */
    BB_NULLABLE = 2,    /* JSON null is taken as absent (and handed over as absent) */
    BB_NOT_BLANK = 4,   /* text: something besides white space */
    BB_SECRET = 8,      /* never logged, never echoed in an error */
    BB_RELOADABLE = 16, /* settings: may change in a reload (all of a module's may by default) */
    BB_RESTART = 32,    /* settings: a reload that changes it is refused */
    BB_AS_SENT = 64,    /* handed over as sent, for the handler to check; of BB_LIST the items */
    BB_VERBATIM = 128,  /* free text, or compared literally: white space stays; since minor 2 */
    BB_NAME = 256,      /* text: who or what somebody is, see above; since minor 2 */
    BB_EMPTY = 512, /* text: "" is a value, not absent, where it is not required; since minor 3 */
    BB_NFKC = 1024, /* e-mail: must be in the form NFKC too, see above; since minor 3 */

    /*
     * Settings that count units of time, numbers or lists of numbers: which unit a plain number
     * is in. In the file a unit may be written, 5s or 2m, and is converted. Since minor 6.
     */
    BB_MILLISECONDS = 2048,
    BB_SECONDS = 4096,
    BB_MINUTES = 8192,
    BB_HOURS = 16384,
    BB_DAYS = 32768,

    /*
     * Bodies: JSON null is handed over as null, not as absent, so that a PATCH can clear the field
     * (RFC 7396). bb_text() and bb_int() take it as absent. Since minor 11.
     */
    BB_CLEARS = 65536
};

/*
 * The member of the module's struct of settings that a setting is bound to, see bb_settings(): its
 * type is `const char *` for texts, e-mails, UUIDs, times and choices (NULL: absent), int64_t for
 * BB_INT, double for BB_NUMBER, bool for BB_BOOL, and json_t * for BB_OBJECT, BB_LIST and BB_ANY
 * (NULL: absent). Numbers and booleans that are absent are 0 and false. Since minor 11.
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
    int64_t min, max;           /* both 0: no bound but the type's own */
    const char *const *choices; /* BB_CHOICE: NULL-terminated */
    struct bb_table fields;     /* BB_OBJECT, BB_LIST: struct bb_field */
    const char *alias;          /* another name that clients may use, or NULL */
    const char *fallback;       /* what absent is taken for, as text; NULL: stays absent */
    const char *help;           /* one sentence for the reference */
    const char *example;        /* for the reference, or NULL */
    struct bb_bind bind;        /* rows of the module's table `settings` only; since minor 11 */
};

#endif
