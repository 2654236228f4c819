/*
 * Handles errors of modules that the host can tolerate: logs each with the module and its route,
 * job, hook or command, and answers an HTTP request with 500.
 */
#ifndef CORE_MODULE_ERROR_H
#define CORE_MODULE_ERROR_H

#include "core/lib/log.h"
#include "core/module/request.h"

enum { MODULE_ERROR_PLACE = 256 };

/* Returns a pair for the log: the request's route (written to `route`), job, hook or command. */
struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE]);

/* Logs an error without answering; `detail` is a name or number that is logged with it, or NULL. */
void module_error_log(const struct core_request *rq, enum bb_level level, const char *what,
                      const char *detail);

/* Logs the error, answers with 500, and makes bb_failed() keep this response. Returns 500. */
int module_error(struct core_request *rq, const char *what, const char *detail);

/*
 * Returns whether the request must not wait, because a hook within a transaction runs (logs this
 * and vetoes the event), or because the request is already refused (answers it). `what` is the
 * function's name.
 */
bool module_error_waits(struct core_request *rq, const char *what);

/* Answers if a module passed NULL as JSON: 503 if memory ran out, otherwise 500 (logged). */
int module_error_no_json(struct core_request *rq, int status);

/* Logs if a response replaces a success, or is an error after a commit. */
void module_error_log_response(const struct core_request *rq, int status);

/* Returns whether a response with this status has a body. */
bool module_error_wants_body(int status);

/*
 * Returns whether a response may have this status: it is in range, and does not contradict a
 * committed transaction. Otherwise answers, and sets *instead to the status.
 */
bool module_error_free_response(struct core_request *rq, int status, int least, int *instead);

/* Checks the state after the handler; answers with 500 if there is no response, or an open unit. */
void module_error_check_answer(struct core_request *rq, int returned);

/* Logs the failure of the request's statement, once. */
void module_error_statement(struct core_request *rq, enum bb_level level);

#endif
