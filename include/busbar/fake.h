/*
 * A fake host for unit tests of modules, without a loop, a server or a database. It reads the
 * module's tables, runs its handlers, hooks and jobs synchronously on the caller's stack, answers
 * statements with rows that the test provides, and records what the module did.
 *
 * Link the test with the module's sources and `pkg-config --libs busbar-fake`:
 *
 *     extern const struct bb_module busbar_module;
 *
 *     struct bb_fake *fake = bb_fake_new(&busbar_module);
 *     bb_fake_open(fake);
 *     bb_fake_rows(fake, "SELECT n FROM", 1, 1, "7");
 *     bb_fake_call(fake, "GET", "/api/hello", NULL);
 *     assert(bb_fake_status(fake) == 200);
 *     bb_fake_free(fake);
 *
 * Segments, queries and bodies are checked against the tables by the host's code: handlers get the
 * same values as in the host, and invalid requests are answered 400 without calling the handler.
 * Command options, payloads and roles are not checked. Commits never fail, nothing parks, and
 * nothing times out. If memory runs out, a name is unknown, or a function is misused (including
 * statements that the host refuses, see sql.h), the process aborts with a line on standard error.
 * Not thread-safe. Returned texts and JSON are borrowed until the next handler call or
 * bb_fake_free().
 */
#ifndef BUSBAR_FAKE_H
#define BUSBAR_FAKE_H

#include <busbar/busbar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bb_fake;

/* Creates a fake host for a module, which must outlive it. Free with bb_fake_free(). */
struct bb_fake *bb_fake_new(const struct bb_module *module);

/* Calls `quiesce` and `close` if `open` succeeded, and frees everything. */
void bb_fake_free(struct bb_fake *fake);

/*
 * Sets a setting; call before bb_fake_open(). The value is written as in the settings file: text, a
 * number, true, or JSON for lists and objects. Other settings have the defaults of their table.
 * bb_settings() returns the settings from bb_fake_open() on.
 */
void bb_fake_set(struct bb_fake *fake, const char *name, const char *value);

/* Provides a service that the module needs; call before bb_fake_open(). */
void bb_fake_give(struct bb_fake *fake, const char *name, const void *interface, void *state);

/* Calls `open` and `start`, if the module has them. Returns the result of `open`. */
int bb_fake_open(struct bb_fake *fake);

/* The text that the module passed to bb_open_fail(); NULL if it did not call it. */
const char *bb_fake_open_problem(const struct bb_fake *fake);

/* The module's handle, for functions that require one. */
struct bb_host *bb_fake_host(struct bb_fake *fake);

/*
 * Sets the caller of subsequent requests; borrowed. NULL: no caller. The default is an Admin,
 * account 1, ada@example.com.
 */
void bb_fake_principal(struct bb_fake *fake, const struct bb_principal *principal);

/* Adds a header to subsequent requests. If none is set, bb_traceparent() returns a constant. */
void bb_fake_header(struct bb_fake *fake, const char *name, const char *value);

/* ---- scripts: replies of the database ---- */

/*
 * The next statement whose text contains `part` gets these rows: `rows` times `columns` cells of
 * const char *, row by row, with NULL for SQL's null. Each script is used once, in order. A
 * statement without a script returns no rows and affects none.
 */
void bb_fake_rows(struct bb_fake *fake, const char *part, size_t rows, size_t columns, ...);

/* The same, but the statement affects this number of rows. */
void bb_fake_affects(struct bb_fake *fake, const char *part, size_t rows);

/*
 * The same, but the statement fails. An empty SQLSTATE means that the database is unavailable. A
 * unit fails at its commit.
 */
void bb_fake_refuses(struct bb_fake *fake, const char *part, const char *sqlstate,
                     const char *constraint);

/* ---- running ---- */

/*
 * Runs the handler of a route. Segments and ?query come from `path`, defaults from the tables;
 * `body` is JSON text or NULL. Returns the status of the answer. If the request does not match the
 * tables, it returns 400 with bb_fake_field(), and the handler is not called.
 */
int bb_fake_call(struct bb_fake *fake, const char *method, const char *path, const char *body);

/*
 * Raises an event of another module and runs its hooks, `within` ones first. `payload` is JSON
 * text. Returns 0, or -1 if a hook vetoed: then bb_fake_status() has the status of its bb_fail().
 */
int bb_fake_raise(struct bb_fake *fake, const char *event, const char *payload);

/*
 * Like bb_fake_raise() for an event with an audience; borrowed. NULL: only Admins, which is the
 * default of bb_fake_raise().
 */
int bb_fake_raise_to(struct bb_fake *fake, const char *event, const char *payload,
                     const struct bb_audience *audience);

/*
 * Runs a job, or a command with its options as JSON text. Returns the command's exit status; 0 for
 * a job.
 */
int bb_fake_job(struct bb_fake *fake, const char *name);
int bb_fake_command(struct bb_fake *fake, const char *name, const char *options);

/* Sends a notification on a channel; NULL: anything may have changed. */
void bb_fake_notify(struct bb_fake *fake, const char *channel, const char *payload);

/* ---- records of the last run of a call, an event, a job or a command ---- */

int bb_fake_status(const struct bb_fake *fake);          /* 0: no answer */
bool bb_fake_again(const struct bb_fake *fake);          /* a job: bb_again() */
json_t *bb_fake_reply(const struct bb_fake *fake);       /* NULL: no body */
const char *bb_fake_message(const struct bb_fake *fake); /* of bb_fail() or bb_invalid(); or NULL */
const char *bb_fake_field(const struct bb_fake *fake);   /* of bb_invalid(); or NULL */
const char *bb_fake_replied(const struct bb_fake *fake, const char *header); /* or NULL */

/* Statements in their order, the statements of a unit at its commit; NULL after the last one. */
const char *bb_fake_statement(const struct bb_fake *fake, size_t index);

/*
 * A parameter of that statement as text ("{1,2}" for lists of numbers); NULL if it is null or
 * absent.
 */
const char *bb_fake_parameter(const struct bb_fake *fake, size_t index, size_t parameter);

/* Events raised and committed; NULL after the last one. */
const char *bb_fake_event(const struct bb_fake *fake, size_t index);
json_t *bb_fake_payload(const struct bb_fake *fake, size_t index);

/* The accounts that may see the event, in addition to Admins; its e-mails are never NULL. */
const struct bb_audience *bb_fake_audience(const struct bb_fake *fake, size_t index);

/* The bytes that were sent to all streams opened up to now. */
const char *bb_fake_streamed(const struct bb_fake *fake);
void bb_fake_leave(struct bb_fake *fake);

/* The count of bb_metric_add() for a value of the module's metric, both by index. */
uint64_t bb_fake_metric(const struct bb_fake *fake, size_t metric, size_t value);

/* Log lines, and the text that a command printed. */
const char *bb_fake_log(const struct bb_fake *fake);
const char *bb_fake_printed(const struct bb_fake *fake);

#ifdef __cplusplus
}
#endif

#endif
