/*
 * A fake host for unit tests of modules: it has no loop, no server and no database. It reads the
 * module's tables, runs its handlers, hooks and jobs at once on the caller's stack, answers their
 * statements with rows that the test has scripted, and records what they did.
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
 * Segments, queries and bodies are checked against the tables, by the code of the host: a handler
 * gets what it would get there, and what is not valid is answered 400 without it. Options of
 * commands, payloads and roles are not checked. What it does not do: transactions cannot fail in
 * their commit, nothing parks, nothing times out. What is out of memory, unknown or misused, as a
 * statement that the host refuses (sql.h), aborts with a line on standard error. Not thread-safe.
 * Texts and JSON that are returned are borrowed, until the next call of a handler or
 * bb_fake_free().
 */
#ifndef BUSBAR_FAKE_H
#define BUSBAR_FAKE_H

#include <busbar/busbar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bb_fake;

/* A fake host of the module; it must outlive the fake. The caller's to bb_fake_free(). */
struct bb_fake *bb_fake_new(const struct bb_module *module);

/* Calls `quiesce` and `close` where `open` has gone well, and frees all. */
void bb_fake_free(struct bb_fake *fake);

/*
 * Sets a setting before bb_fake_open(), to a value as the settings file has it: text, a number,
 * true, or JSON for lists and objects. The others have the defaults of their table. bb_settings()
 * has them from bb_fake_open() on.
 */
void bb_fake_set(struct bb_fake *fake, const char *name, const char *value);

/* Gives a service that the module needs; before bb_fake_open(). */
void bb_fake_give(struct bb_fake *fake, const char *name, const void *interface, void *state);

/* Calls `open` and `start`, as far as the module has them. What `open` returned. */
int bb_fake_open(struct bb_fake *fake);

/* What the module said with bb_open_fail(); NULL: nothing. */
const char *bb_fake_open_problem(const struct bb_fake *fake);

/* The module's handle, for functions that want one. */
struct bb_host *bb_fake_host(struct bb_fake *fake);

/* Who calls from now on; borrowed. NULL: nobody. At first an Admin, account 1, ada@example.com. */
void bb_fake_principal(struct bb_fake *fake, const struct bb_principal *principal);

/* A header of the following requests. Without one, bb_traceparent() has a constant. */
void bb_fake_header(struct bb_fake *fake, const char *name, const char *value);

/* ---- scripts: what the database answers ---- */

/*
 * The next statement whose text has `part` in it gets these rows: `rows` times `columns` cells of
 * const char *, row by row, NULL for SQL's null. Each script serves once, in their order; a
 * statement without one finds nothing and touches nothing.
 */
void bb_fake_rows(struct bb_fake *fake, const char *part, size_t rows, size_t columns, ...);

/* … touches this many rows. */
void bb_fake_affects(struct bb_fake *fake, const char *part, size_t rows);

/* … fails. "": the database is away. A unit fails at its commit. */
void bb_fake_refuses(struct bb_fake *fake, const char *part, const char *sqlstate,
                     const char *constraint);

/* ---- running ---- */

/*
 * Runs the handler of the route: its segments and ?query are taken from `path`, defaults from the
 * tables; `body` is JSON text or NULL. Returns the status of the answer; 400 with bb_fake_field()
 * where the request does not fit the tables, and the handler has not been called.
 */
int bb_fake_call(struct bb_fake *fake, const char *method, const char *path, const char *body);

/*
 * Raises an event of another module: runs the hooks on it, within ones first. `payload` is JSON
 * text. 0; or -1 when one vetoed: then bb_fake_status() is that of its bb_fail().
 */
int bb_fake_raise(struct bb_fake *fake, const char *event, const char *payload);

/* The same of an event that those may see; borrowed. NULL: Admins alone, as bb_fake_raise() has it.
 */
int bb_fake_raise_to(struct bb_fake *fake, const char *event, const char *payload,
                     const struct bb_audience *audience);

/* Runs a job, or a command with its options as JSON text; the command's exit status, else 0. */
int bb_fake_job(struct bb_fake *fake, const char *name);
int bb_fake_command(struct bb_fake *fake, const char *name, const char *options);

/* Tells a channel; NULL: anything may have changed. */
void bb_fake_notify(struct bb_fake *fake, const char *channel, const char *payload);

/* ---- what was recorded of the last run: one of the four functions above ---- */

int bb_fake_status(const struct bb_fake *fake);          /* 0: no answer */
bool bb_fake_again(const struct bb_fake *fake);          /* a job: bb_again() */
json_t *bb_fake_reply(const struct bb_fake *fake);       /* NULL: no body */
const char *bb_fake_message(const struct bb_fake *fake); /* of bb_fail(), bb_invalid(); or NULL */
const char *bb_fake_field(const struct bb_fake *fake);   /* of bb_invalid(); or NULL */
const char *bb_fake_replied(const struct bb_fake *fake, const char *header); /* or NULL */

/* Statements in their order, those of a unit at its commit; NULL: so many there are not. */
const char *bb_fake_statement(const struct bb_fake *fake, size_t index);

/* A parameter of it as text ("{1,2}" for lists of numbers); NULL: null, or not there. */
const char *bb_fake_parameter(const struct bb_fake *fake, size_t index, size_t parameter);

/* Events raised and committed; NULL: so many there are not. */
const char *bb_fake_event(const struct bb_fake *fake, size_t index);
json_t *bb_fake_payload(const struct bb_fake *fake, size_t index);

/* Who may see it beside the Admins; its e-mails are never NULL. */
const struct bb_audience *bb_fake_audience(const struct bb_fake *fake, size_t index);

/* Bytes that all streams opened so far were sent; and their clients leave, as bb_fake_free() has
 * it. */
const char *bb_fake_streamed(const struct bb_fake *fake);
void bb_fake_leave(struct bb_fake *fake);

/* How much bb_metric_add() has counted of a value of the module's metric, by their indices. */
uint64_t bb_fake_metric(const struct bb_fake *fake, size_t metric, size_t value);

/* Lines of the log, and what a command has printed. */
const char *bb_fake_log(const struct bb_fake *fake);
const char *bb_fake_printed(const struct bb_fake *fake);

#ifdef __cplusplus
}
#endif

#endif
