/*
 * W3C Trace Context: the header traceparent. A request belongs to the client's trace if the client
 * sent a valid one, otherwise to a new trace. The request is always a new span of its trace.
 */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

enum { TRACE_ID_SIZE = 33, TRACE_PARENT_SIZE = 56 }; /* with the NUL */

/*
 * Writes the traceparent of this host's span: "00-<trace>-<span>-<flags>". Copies trace and flags
 * from `given` (NULL: none) if it is well-formed and its version is compatible with 00; otherwise
 * the trace is new and not sampled.
 */
void trace_parent(const char *given, char out[TRACE_PARENT_SIZE]);

/* Extracts the trace id. */
void trace_id(const char parent[TRACE_PARENT_SIZE], char out[TRACE_ID_SIZE]);

#endif
