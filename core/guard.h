/*
 * The framing guard: refuses requests that libmicrohttpd 0.9.75 takes and a proxy in front may
 * understand otherwise (request smuggling), before anything else looks at them.
 *
 * A pure function over what the library gave; it keeps nothing and allocates nothing. Any thread.
 */
#ifndef CORE_GUARD_H
#define CORE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_HEADERS_MAX 100

struct guard_header {
    const char *name, *value; /* value NULL: empty */
};

struct guard_verdict {
    int status;         /* 0: nothing to object; else of the answer */
    const char *reason; /* static text for the answer and the log; NULL with status 0 */
    bool close;         /* the connection must not be used again */
};

/*
 * `raw_target` as it stood in the request line, with the query, not decoded. TRACE, OPTIONS and a
 * CONNECT to a path pass: the router answers them with 405 and Allow.
 */
struct guard_verdict guard_check(const char *method, const char *version, const char *raw_target,
                                 const struct guard_header *headers, size_t count);

#endif
