/* The suites of the integration tests, one for each file: X(chat) stands for chat_suite() in
 * test_chat.c.
 */
#ifndef TESTS_SUITES_H
#define TESTS_SUITES_H

#include <check.h>

/* The longest suites come first, so that no suite runs alone at the end; logs is the last one
 * because it checks the logs of all other suites. */
#define SUITES(X)                                                                                  \
    X(bulk_kills)                                                                                  \
    X(certificate_history)                                                                         \
    X(device_s3)                                                                                   \
    X(chat_unread)                                                                                 \
    X(reload_refused)                                                                              \
    X(bulk_limits)                                                                                 \
    X(list_bytes)                                                                                  \
    X(bulk_csv)                                                                                    \
    X(bulk_run)                                                                                    \
    X(checkout)                                                                                    \
    X(chat_long)                                                                                   \
    X(bodies)                                                                                      \
    X(stream_behind)                                                                               \
    X(certificate_exports)                                                                         \
    X(framing)                                                                                     \
    X(reading_list)                                                                                \
    X(reload)                                                                                      \
    X(device_refused)                                                                              \
    X(heads)                                                                                       \
    X(health)                                                                                      \
    X(lookalikes)                                                                                  \
    X(readiness)                                                                                   \
    X(missing)                                                                                     \
    X(operating)                                                                                   \
    X(pause)                                                                                       \
    X(access)                                                                                      \
    X(admin)                                                                                       \
    X(sessions)                                                                                    \
    X(rotation)                                                                                    \
    X(tokens)                                                                                      \
    X(login)                                                                                       \
    X(throttle)                                                                                    \
    X(docs)                                                                                        \
    X(matrix)                                                                                      \
    X(statuses)                                                                                    \
    X(chat)                                                                                        \
    X(chat_rules)                                                                                  \
    X(chat_limits)                                                                                 \
    X(chat_owners)                                                                                 \
    X(stream)                                                                                      \
    X(stream_resume)                                                                               \
    X(stream_restore)                                                                              \
    X(stream_promotion)                                                                            \
    X(stream_end)                                                                                  \
    X(metrics)                                                                                     \
    X(migrations)                                                                                  \
    X(idempotency)                                                                                 \
    X(events)                                                                                      \
    X(keys)                                                                                        \
    X(look_ups)                                                                                    \
    X(statements)                                                                                  \
    X(failover)                                                                                    \
    X(replication)                                                                                 \
    X(pooler)                                                                                      \
    X(cluster)                                                                                     \
    X(ledger)                                                                                      \
    X(bad_module)                                                                                  \
    X(late)                                                                                        \
    X(processes)                                                                                   \
    X(topics)                                                                                      \
    X(upstream)                                                                                    \
    X(upstream_ends)                                                                               \
    X(reload_status)                                                                               \
    X(reload_load)                                                                                 \
    X(stop)                                                                                        \
    X(tour)                                                                                        \
    X(access_order)                                                                                \
    X(tolerance)                                                                                   \
    X(cut_off)                                                                                     \
    X(half_close)                                                                                  \
    X(responses)                                                                                   \
    X(limits)                                                                                      \
    X(body_limits)                                                                                 \
    X(connections)                                                                                 \
    X(crowd)                                                                                       \
    X(attacks)                                                                                     \
    X(fair)                                                                                        \
    X(turns)                                                                                       \
    X(cases)                                                                                       \
    X(devices)                                                                                     \
    X(device_owners)                                                                               \
    X(device_changes)                                                                              \
    X(device_delete)                                                                               \
    X(device_duplicates)                                                                           \
    X(device_list)                                                                                 \
    X(device_files)                                                                                \
    X(device_uploads)                                                                              \
    X(device_s3_backup)                                                                            \
    X(device_s3_faults)                                                                            \
    X(device_s3_sweep)                                                                             \
    X(device_s3_tls)                                                                               \
    X(readings)                                                                                    \
    X(reading_batches)                                                                             \
    X(clock_changes)                                                                               \
    X(certificate_explain)                                                                         \
    X(certificate_ceiling)                                                                         \
    X(reading_export)                                                                              \
    X(bulk)                                                                                        \
    X(bulk_daily)                                                                                  \
    X(bulk_devices)                                                                                \
    X(bulk_events)                                                                                 \
    X(bulk_files)                                                                                  \
    X(bulk_reads)                                                                                  \
    X(bulk_contacts)                                                                               \
    X(bulk_import)                                                                                 \
    X(bulk_stream)                                                                                 \
    X(certificates)                                                                                \
    X(certificate_groups)                                                                          \
    X(corrections)                                                                                 \
    X(certificate_log)                                                                             \
    X(certificate_filters)                                                                         \
    X(certificate_model)                                                                           \
    X(certificate_year)                                                                            \
    X(certificate_month)                                                                           \
    X(certificate_finalize)                                                                        \
    X(certificate_loads)                                                                           \
    X(certificate_runs)                                                                            \
    X(webhooks)                                                                                    \
    X(webhook_owners)                                                                              \
    X(webhook_targets)                                                                             \
    X(webhook_delivery)                                                                            \
    X(webhook_expand)                                                                              \
    X(webhook_days)                                                                                \
    X(webhook_signatures)                                                                          \
    X(webhook_wire)                                                                                \
    X(webhook_connections)                                                                         \
    X(webhook_crowd)                                                                               \
    X(notes)                                                                                       \
    X(helpers)                                                                                     \
    X(languages)                                                                                   \
    X(tools)                                                                                       \
    X(injection)                                                                                   \
    X(logs)

/* Suites that repeat at length what other suites test once. They run if they are named, and in a
 * full run (BUSBAR_TEST_FULL). */
#define FULL_SUITES(X) X(certificate_year)

/* Suites that need programs which only their own part of ./test installs run only if they are
 * named. */
#define APART_SUITES(X) X(contract)

#define SUITE_DECLARE(name) Suite *name##_suite(void);
SUITES(SUITE_DECLARE)
APART_SUITES(SUITE_DECLARE)
#undef SUITE_DECLARE

#endif
