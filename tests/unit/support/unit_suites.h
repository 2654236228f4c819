/*
 * The suites of the unit tests, one for each file: X(json) stands for `Suite *json_suite(void)` in
 * test_json.c. Keep them in alphabetical order.
 */
#ifndef TESTS_UNIT_SUITES_H
#define TESTS_UNIT_SUITES_H

#include <check.h>

#define SUITES(X)                                                                                  \
    X(address)                                                                                     \
    X(arena)                                                                                       \
    X(bind)                                                                                        \
    X(bus)                                                                                         \
    X(cells)                                                                                       \
    X(chat_cursor)                                                                                 \
    X(ceiling)                                                                                     \
    X(csv)                                                                                         \
    X(dial)                                                                                        \
    X(fair_queue)                                                                                  \
    X(fiber)                                                                                       \
    X(field)                                                                                       \
    X(pg_merge)                                                                                    \
    X(head)                                                                                        \
    X(http_drain)                                                                                  \
    X(http_epoll)                                                                                  \
    X(http_leaving)                                                                                \
    X(http_requests)                                                                               \
    X(http_shares)                                                                                 \
    X(http_stream)                                                                                 \
    X(http_stream_ends)                                                                            \
    X(http_times)                                                                                  \
    X(http_topics)                                                                                 \
    X(history)                                                                                     \
    X(inspect)                                                                                     \
    X(jobs)                                                                                        \
    X(json)                                                                                        \
    X(json_out)                                                                                    \
    X(pg_batch)                                                                                    \
    X(pg_listener)                                                                                 \
    X(pg_lost)                                                                                     \
    X(pg_pool)                                                                                     \
    X(listener)                                                                                    \
    X(log)                                                                                         \
    X(loop)                                                                                        \
    X(meter)                                                                                       \
    X(migrate_steps)                                                                               \
    X(module)                                                                                      \
    X(module_files)                                                                                \
    X(sd_notify)                                                                                   \
    X(shared_clock)                                                                                \
    X(sqlstate)                                                                                    \
    X(multipart)                                                                                   \
    X(pool)                                                                                        \
    X(postgres)                                                                                    \
    X(query)                                                                                       \
    X(reader)                                                                                      \
    X(reply)                                                                                       \
    X(route)                                                                                       \
    X(schema)                                                                                      \
    X(aead)                                                                                        \
    X(sandbox)                                                                                     \
    X(service_order)                                                                               \
    X(settings)                                                                                    \
    X(http_client)                                                                                 \
    X(quota)                                                                                       \
    X(hang)                                                                                        \
    X(text)                                                                                        \
    X(timer)                                                                                       \
    X(timezones)                                                                                   \
    X(token)                                                                                       \
    X(transaction)                                                                                 \
    X(webhook_queue)                                                                               \
    X(webhook_retry_time)                                                                          \
    X(webhook_sign)                                                                                \
    X(webhook_target)

#define SUITE_DECLARE(name) Suite *name##_suite(void);
SUITES(SUITE_DECLARE)
#undef SUITE_DECLARE

#endif
