/*
 * The table of the host's functions for modules (see <busbar/api.h>). The public headers document
 * the functions. Each function api_NAME() implements the member NAME of struct bb_api.
 */
#ifndef CORE_API_H
#define CORE_API_H

#include <busbar/api.h>

/* All functions of struct bb_api, by file. Its other members are `size`, `minor` and the clocks. */
// clang-format off
#define API_FUNCTIONS(X)                                                                           \
    /* core/module/generation.c */                                                                 \
    X(host_alloc) X(setting_text) X(setting_int) X(setting_number) X(setting_json)                 \
    X(open_fail) X(service) X(seal) X(unseal) X(service_at) X(event_names) X(module_at)            \
    X(superseded) X(metric_add) X(settings)                                                        \
    /* core/module/pool.c */                                                                       \
    X(offload) X(offload_for) X(stopping) X(wake) X(leave_ms) X(drained)                           \
    /* core/module/request.c */                                                                    \
    X(call_as) X(guard) X(end) X(completion) X(completion_wait) X(completion_signal)               \
    X(scratch) X(yield_now)                                                                           \
    /* core/module/reply.c */                                                                      \
    X(reply_file) X(vwarn) X(if_match)                                                             \
    /* core/store/sql.c */                                                                         \
    X(query) X(rows_count) X(rows_affected) X(rows_text) X(rows_length) X(sqlstate)                \
    X(constraint) X(next_id)                                                                       \
    /* core/store/tx.c */                                                                          \
    X(unit) X(add) X(commit) X(unit_rows) X(transaction) X(tx_query) X(after) X(before)            \
    /* core/store/bus.c */                                                                         \
    X(emit)                                                                                        \
    /* core/store/redis.c */                                                                       \
    X(redis)                                                                                       \
    /* core/server/stream.c */                                                                     \
    X(stream_join) X(stream_publish) X(stream_publish_to) X(stream_open) X(stream_send)            \
    X(stream_waiting) X(stream_end) X(chunk_new) X(chunk_release) X(stream_cut)                    \
    /* core/server/body.c */                                                                       \
    X(file)                                                                                        \
    /* core/server/http_txn.c */                                                                   \
    X(audit)                                                                                       \
    /* core/main/job.c */                                                                          \
    X(run) X(again) X(run_then)                                                                    \
    /* core/main/metrics.c */                                                                      \
    X(metrics)                                                                                     \
    /* core/main/api.c */                                                                          \
    X(host_log) X(signals_fresh_ms) X(random_bytes) X(alloc) X(vformat) X(defer) X(segment)        \
    X(segment_int) X(arg) X(arg_int) X(body) X(header) X(client_address) X(reply) X(vfail)         \
    X(vinvalid) X(failed) X(reply_header) X(reply_next) X(log) X(vprint) X(probe)                  \
    X(standstill) X(probe_problem) X(answered) X(pause_reason) X(new_uuid) X(time_text)            \
    X(json) X(json_read) X(reply_bytes) X(check) X(refuse) X(vfail_listed) X(open_fail_text)       \
    X(host_log_text) X(fail_text) X(invalid_text) X(fail_listed_text) X(warn_text)                 \
    X(log_text) X(print_text) X(set_code)
// clang-format on

#define API_DECLARE(name) __typeof__(*((struct bb_api *)NULL)->name) api_##name;
API_FUNCTIONS(API_DECLARE)

extern const struct bb_api core_api; /* in core/main/api.c */

#endif
