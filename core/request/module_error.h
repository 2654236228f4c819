/*
 * Mistakes of modules: what the contract does not allow, and a host bears. Each has a line in the
 * log that names the module and where it was (its route, job, hook or command), and a request over
 * HTTP is answered 500; none ends the process.
 */
#ifndef CORE_MODULE_ERROR_H
#define CORE_MODULE_ERROR_H

#include "core/base/log.h"
#include "core/request/request.h"

enum { MODULE_ERROR_PLACE = 256 };

/* The module's name for a line of the log; NULL: the host's own work. */
const char *module_error_module(const struct bb_host *host);

/* Where the request is, as a pair of the log: its route (written to `route`), job, hook, command.
 */
struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE]);

/* The line alone; `detail` is a name or number that belongs to it, or NULL. */
void module_error_log(const struct core_request *rq, const char *what, const char *detail);

/* The same of what is only odd: a warning. */
void module_error_warn(const struct core_request *rq, const char *what, const char *detail);

/* The line, the answer, and the failure for bb_failed(), which has been answered. Returns 500. */
int module_error(struct core_request *rq, const char *what, const char *detail);

/*
 * Whether a hook that must not wait calls a function that does: told, and its event is vetoed.
 * `what` is the function's name. Or a handler does whose request is refused: it is answered.
 */
bool module_error_waits(struct core_request *rq, const char *what);

/* An answer without JSON that should have some: 503 when memory ran out meanwhile, else a mistake.
 */
int module_error_no_json(struct core_request *rq, int status);

/*
 * An answer that the module gives now: told where it takes the place of another that was no error,
 * or is an error though a transaction of the request is committed, which cannot be undone.
 */
void module_error_log_response(const struct core_request *rq, int status);

/* Whether an answer of this status has a body. */
bool module_error_wants_body(int status);

/*
 * Whether an answer may be given with this status now: it lies in the range, and no transaction of
 * the request has been committed whose answer says otherwise. *instead is what was answered then.
 */
bool module_error_free_response(struct core_request *rq, int status, int least, int *instead);

/* What a handler left when it returned `returned`: told, and answered 500 where that is still true.
 */
void module_error_look_back(struct core_request *rq, int returned);

/* Logs the statement that failed, the request's failure, unless it has been. */
void module_error_statement(struct core_request *rq, enum bb_level level);

#endif
