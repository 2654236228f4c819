/* Devices and their readings, as the tests of readings and certificates speak of them. */
#ifndef TESTS_METER_H
#define TESTS_METER_H

#include "people.h"

#define METER_MODULES "[auth, device, reading, certificate]"
#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

/* A host with the modules, on a database of its own of that name. `more`: whole sections, or NULL.
 */
struct host *meter_host(const char *name, const char *more);

/* Midnight (UTC) so many days ago, in ms since 1970; as text, date alone or with the time. */
int64_t days_ago(int days);
char *date_text(int64_t ms);
char *time_text(int64_t ms);

/* Registers a device of so many kW, commissioned on that day; its id. */
int64_t meter_make(const struct host *host, const struct person *by, const char *external_id,
                   double kw, int64_t commissioned);

/* POST of a body (taken), of one reading in Wh, and of the readings of consecutive periods of that
 * length, `count` of them with `wh` each. */
struct answer *meter_post(const struct host *host, const struct person *by, const char *external_id,
                          json_t *body);
struct answer *meter_read(const struct host *host, const struct person *by, const char *external_id,
                          const char *type, int64_t start, int64_t end, double wh);
struct answer *meter_series(const struct host *host, const struct person *by,
                            const char *external_id, const char *type, int64_t start,
                            int64_t length, int count, int wh);

/* GET of the readings; `query` may be "". */
struct answer *meter_list(const struct host *host, const struct person *by, const char *external_id,
                          const char *query);

/* Adds up `value` of all pages. */
int64_t meter_total(const struct host *host, const struct person *by, const char *external_id);

/* Starts `busbar certificate issue` beside whatever else runs; for process_wait(). */
pid_t meter_issue_start(const struct host *by);

/* Text of a member of an item of the answer's array (or of its member `list`). */
const json_t *item_of(const struct answer *answer, const char *list, size_t index);
const char *text_in(const json_t *object, const char *key);
int64_t int_in(const json_t *object, const char *key);

#endif
