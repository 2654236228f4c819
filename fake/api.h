/* The fake's functions behind struct bb_api; the headers of busbar say what each does. */
#ifndef FAKE_API_H
#define FAKE_API_H

#include "fake/fake.h"

/* api_host.c */
void *fake_host_alloc(struct bb_host *host, size_t size);
BB_PRINTF(2, 0) int fake_open_fail(struct bb_host *host, const char *format, va_list args);
struct bb_service fake_service(struct bb_host *host, const char *name);
bool fake_service_at(struct bb_host *host, const char *kind, size_t index, struct bb_given *given);
BB_PRINTF(3, 0)
void fake_host_log(struct bb_host *host, enum bb_level level, const char *format, va_list args);
int64_t fake_signals_fresh_ms(struct bb_host *host);
int64_t fake_now_ms(void);
int64_t fake_wall_ms(void);
int fake_random_bytes(void *bytes, size_t length);
int fake_seal(struct bb_host *host, const void *plain, size_t length, const char *purpose,
              unsigned char **sealed, size_t *sealed_length);
int fake_unseal(struct bb_host *host, const void *sealed, size_t length, const char *purpose,
                unsigned char **plain, size_t *plain_length);
bool fake_stopping(struct bb_worker_context *context);
int64_t fake_leave_ms(struct bb_worker_context *context);
bool fake_superseded(struct bb_host *host);
bool fake_drained(struct bb_worker_context *context);
void fake_wake(struct bb_host *host, const char *worker);
int fake_run_now(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg);
int fake_run_then(struct bb_host *host, void (*work)(struct bb_request *, void *),
                  void (*then)(void *, bool), void *arg);
void fake_completion_signal(struct bb_completion *completion);
const struct bb_module *fake_module_at(struct bb_host *host, size_t index);
size_t fake_event_names(struct bb_host *host, const char *const **names);
void fake_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by);

/* settings.c */
const char *fake_setting_text(struct bb_host *host, const char *name);
int64_t fake_setting_int(struct bb_host *host, const char *name);
double fake_setting_number(struct bb_host *host, const char *name);
json_t *fake_setting_json(struct bb_host *host, const char *name);
const void *fake_settings(struct bb_host *host);

/* api_request.c */
void *fake_request_alloc(struct bb_request *rq, size_t size);
BB_PRINTF(2, 0)
char *fake_request_format(struct bb_request *rq, const char *format, va_list args);
void fake_request_defer(struct bb_request *rq, void (*call)(void *), void *arg);
const char *fake_request_segment(struct bb_request *rq, const char *name);
int64_t fake_request_segment_int(struct bb_request *rq, const char *name);
const char *fake_request_arg(struct bb_request *rq, const char *name);
int64_t fake_request_arg_int(struct bb_request *rq, const char *name, int64_t absent);
json_t *fake_request_body(struct bb_request *rq);
const char *fake_request_header(struct bb_request *rq, const char *name);
const char *fake_request_address(struct bb_request *rq);
BB_PRINTF(3, 0)
int fake_request_fail(struct bb_request *rq, int status, const char *format, va_list args);
BB_PRINTF(3, 0)
int fake_request_invalid(struct bb_request *rq, const char *field, const char *format,
                         va_list args);
int fake_request_refuse(struct bb_request *rq, json_t *errors);
BB_PRINTF(4, 0)
int fake_request_vfail_listed(struct bb_request *rq, int status, json_t *errors, const char *format,
                              va_list args);
void fake_request_again(struct bb_request *rq);
BB_PRINTF(2, 0)
void fake_request_vwarn(struct bb_request *rq, const char *format, va_list args);
int fake_request_scratch(struct bb_request *rq, int (*work)(struct bb_request *, void *),
                         void *arg);
const struct bb_file *fake_request_file(struct bb_request *rq, size_t index);
int fake_request_reply_file(struct bb_request *rq, int fd, int64_t length);
int fake_request_failed(struct bb_request *rq);
int fake_request_reply_header(struct bb_request *rq, const char *name, const char *value);
int fake_request_reply_next(struct bb_request *rq, const char *cursor);
BB_PRINTF(3, 0)
void fake_request_log(struct bb_request *rq, enum bb_level level, const char *format, va_list args);
BB_PRINTF(2, 0)
void fake_request_print(struct bb_request *rq, const char *format, va_list args);
int fake_request_offload(struct bb_request *rq, const char *pool, void (*work)(void *), void *arg);
int fake_request_offload_for(struct bb_request *rq, const char *pool, uint64_t subject,
                             void (*work)(void *), void *arg);
int fake_request_call_as(struct bb_request *rq, struct bb_host *giver,
                         int (*work)(struct bb_request *, void *), void *arg);
int fake_request_probe(struct bb_request *rq, enum bb_dependency dependency, int64_t *latency_ms);
const char *fake_request_standstill(struct bb_request *rq);
const char *fake_request_pause_reason(struct bb_request *rq);
uint64_t fake_request_answered(struct bb_request *rq);
const struct bb_redis_reply *fake_request_redis(struct bb_request *rq, int argc,
                                                const char *const *argv, const size_t *lengths);
char *fake_request_uuid(struct bb_request *rq);
char *fake_request_time(struct bb_request *rq, int64_t ms);
struct bb_completion *fake_request_completion(struct bb_request *rq);
int fake_request_completion_wait(struct bb_request *rq, struct bb_completion *completion,
                                 int64_t timeout_ms);
char *fake_request_json(struct bb_request *rq, const json_t *json, size_t *length);
json_t *fake_request_json_read(struct bb_request *rq, const char *text);
char *fake_request_metrics(struct bb_request *rq, size_t *length);
int fake_request_reply_bytes(struct bb_request *rq, int status, const char *type, const void *bytes,
                             size_t length);

/* check.c */
json_t *fake_request_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                           json_t *errors);

/* stream.c */
int fake_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                     struct bb_stream **stream);
int fake_stream_send(struct bb_stream *stream, struct bb_chunk *chunk);
size_t fake_stream_waiting(struct bb_stream *stream);
int fake_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic);
size_t fake_stream_publish(struct bb_host *host, const char *topic, struct bb_chunk *chunk);
void fake_stream_end(struct bb_stream *stream);
struct bb_chunk *fake_chunk_new(size_t length);
void fake_chunk_release(struct bb_chunk *chunk);

#endif
