/* The fake's functions behind struct bb_api; the headers of busbar say what each does. */
#ifndef FAKE_API_H
#define FAKE_API_H

#include "fake/fake.h"

/* api_host.c */
void *host_alloc(struct bb_host *host, size_t size);
const char *setting_text(struct bb_host *host, const char *name);
int64_t setting_int(struct bb_host *host, const char *name);
double setting_number(struct bb_host *host, const char *name);
json_t *setting_json(struct bb_host *host, const char *name);
BB_PRINTF(2, 0) int open_fail(struct bb_host *host, const char *format, va_list args);
struct bb_service service(struct bb_host *host, const char *name);
BB_PRINTF(3, 0)
void host_log(struct bb_host *host, enum bb_level level, const char *format, va_list args);
int64_t signals_fresh_ms(struct bb_host *host);
int64_t now_ms(void);
int64_t wall_ms(void);
int random_bytes(void *bytes, size_t length);
int seal(struct bb_host *host, const void *plain, size_t length, const char *purpose,
         unsigned char **sealed, size_t *sealed_length);
int unseal(struct bb_host *host, const void *sealed, size_t length, const char *purpose,
           unsigned char **plain, size_t *plain_length);
bool stopping(struct bb_seat *seat);
int64_t leave_ms(struct bb_seat *seat);
bool superseded(struct bb_host *host);
void wake(struct bb_host *host, const char *worker);
int run_now(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg);
void gate_open(struct bb_gate *gate);
size_t event_names(struct bb_host *host, const char *const **names);

/* api_request.c */
void *request_alloc(struct bb_request *rq, size_t size);
BB_PRINTF(2, 0)
char *request_format(struct bb_request *rq, const char *format, va_list args);
void request_defer(struct bb_request *rq, void (*call)(void *), void *arg);
const char *request_segment(struct bb_request *rq, const char *name);
int64_t request_segment_int(struct bb_request *rq, const char *name);
const char *request_arg(struct bb_request *rq, const char *name);
int64_t request_arg_int(struct bb_request *rq, const char *name, int64_t absent);
json_t *request_body(struct bb_request *rq);
const char *request_header(struct bb_request *rq, const char *name);
const char *request_address(struct bb_request *rq);
int request_reply(struct bb_request *rq, int status, json_t *json);
BB_PRINTF(3, 0)
int request_fail(struct bb_request *rq, int status, const char *format, va_list args);
BB_PRINTF(3, 0)
int request_invalid(struct bb_request *rq, const char *field, const char *format, va_list args);
int request_failed(struct bb_request *rq);
int request_reply_header(struct bb_request *rq, const char *name, const char *value);
int request_reply_next(struct bb_request *rq, const char *cursor);
BB_PRINTF(3, 0)
void request_log(struct bb_request *rq, enum bb_level level, const char *format, va_list args);
BB_PRINTF(2, 0)
void request_print(struct bb_request *rq, const char *format, va_list args);
int request_offload(struct bb_request *rq, const char *pool, void (*work)(void *), void *arg);
int request_probe(struct bb_request *rq, enum bb_dependency dependency, int64_t *latency_ms);
const struct bb_redis_reply *request_redis(struct bb_request *rq, int argc, const char *const *argv,
                                           const size_t *lengths);
char *request_uuid(struct bb_request *rq);
char *request_time(struct bb_request *rq, int64_t ms);
struct bb_gate *request_gate(struct bb_request *rq);
int request_gate_wait(struct bb_request *rq, struct bb_gate *gate, int64_t timeout_ms);
char *request_json(struct bb_request *rq, const json_t *json, size_t *length);

#endif
