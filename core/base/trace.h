/*
 * W3C Trace Context: the header traceparent. A request belongs to the trace of its client, if that
 * names one as the recommendation asks, else to a new one; either way it is a span of its own.
 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

#include <stdbool.h>

enum { TRACE_ID_SIZE = 33, TRACE_PARENT_SIZE = 56 }; /* with the NUL */

/*
 * Writes the traceparent of this host's span: "00-<trace>-<span>-<flags>". Trace and flags are
 * those of `given` (NULL: none), if it is well-formed and of a version that can be read as 00;
 * otherwise the trace is new and not sampled.
 */
void trace_parent(const char *given, char out[TRACE_PARENT_SIZE]);

/* The trace in it. */
void trace_id(const char parent[TRACE_PARENT_SIZE], char out[TRACE_ID_SIZE]);

#endif
