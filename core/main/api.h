/*
 * The table of the host's functions for modules (see <busbar/api.h>), and the functions in it that
 * belong to no other part of the host. The public headers document them.
 */
#ifndef CORE_API_H
#define CORE_API_H

#include <busbar/api.h>

extern const struct bb_api core_api;

/* api_request.c: data of a request. */
const char *api_segment(struct bb_request *rq, const char *name);
int64_t api_segment_int(struct bb_request *rq, const char *name);
const char *api_arg(struct bb_request *rq, const char *name);
int64_t api_arg_int(struct bb_request *rq, const char *name, int64_t absent);
json_t *api_body(struct bb_request *rq);
json_t *api_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                  json_t *errors);
const char *api_header(struct bb_request *rq, const char *name);
const char *api_client_address(struct bb_request *rq);

/* api_reply.c: answers. */
int api_reply(struct bb_request *rq, int status, json_t *json);
int api_reply_bytes(struct bb_request *rq, int status, const char *type, const void *bytes,
                    size_t length);
int api_reply_file(struct bb_request *rq, int fd, int64_t length);
BB_PRINTF(3, 0)
int api_vfail(struct bb_request *rq, int status, const char *format, va_list args);
int api_vfail_listed(struct bb_request *rq, int status, json_t *errors, const char *format,
                     va_list args);
BB_PRINTF(3, 0)
int api_vinvalid(struct bb_request *rq, const char *field, const char *problem, va_list args);
int api_refuse(struct bb_request *rq, json_t *errors);
int api_failed(struct bb_request *rq);
int api_reply_header(struct bb_request *rq, const char *name, const char *value);
int api_reply_next(struct bb_request *rq, const char *cursor);

#endif
