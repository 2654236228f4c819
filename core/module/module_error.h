/*
 * Errors of modules that violate the contract but that the host can tolerate. Each is logged with
 * the module and the place (its route, job, hook or command), and an HTTP request is answered 500;
 * none ends the process.
 */
#ifndef CORE_MODULE_ERROR_H
#define CORE_MODULE_ERROR_H

#include "core/lib/log.h"
#include "core/module/request.h"

enum { MODULE_ERROR_PLACE = 256 };

/* Returns a pair for the log: the request's route (in `route`), job, hook or command. */
struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE]);

/* Logs an error without answering; `detail` is a name or number that is logged with it, or NULL. */
void module_error_log(const struct core_request *rq, enum bb_level level, const char *what,
                      const char *detail);

/* Logs the error, answers, and sets the failure for bb_failed() to "answered". Returns 500. */
int module_error(struct core_request *rq, const char *what, const char *detail);

/*
 * Whether the request must not wait: in a hook within a transaction (logged, and its event is
 * vetoed), or if it is already refused (and answered). `what` is the function's name.
 */
bool module_error_waits(struct core_request *rq, const char *what);

/* Answers for missing JSON: 503 if memory ran out, otherwise as an error of the module. */
int module_error_no_json(struct core_request *rq, int status);

/* Logs if an answer replaces a success, or is an error after a commit. */
void module_error_log_response(const struct core_request *rq, int status);

/* Whether an answer with this status has a body. */
bool module_error_wants_body(int status);

/*
 * Whether an answer with this status may be given now: it is in range, and does not contradict a
 * committed transaction. Otherwise *instead is the status that was answered.
 */
bool module_error_free_response(struct core_request *rq, int status, int least, int *instead);

/* Checks the state after the handler; answers 500 if there is no answer, or an open unit. */
void module_error_look_back(struct core_request *rq, int returned);

/* Logs the failure of the request's statement unless that was done before. */
void module_error_statement(struct core_request *rq, enum bb_level level);

#endif
