#include "core/module/module_error.h"

#include <stdio.h>
#include <string.h>

#include "core/module/reply.h"

enum { WORDS = 80 /* maximum characters of a statement in the log */ };
enum { STATUS_MIN = 200, STATUS_ERROR = 400, STATUS_MAX = 599 };

/* Returns the module's name for a log line. */
static const char *module_error_module(const struct bb_host *host)
{
    return host && host->module ? host->module->name : "busbar";
}

struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE])
{
    if (rq->kind == REQUEST_JOB)
        return (struct log_pair){"job", rq->name};
    if (rq->kind == REQUEST_HOOK)
        return (struct log_pair){"hook", rq->name};
    if (rq->kind == REQUEST_COMMAND)
        return (struct log_pair){"command", rq->name};
    if (rq->route)
        snprintf(route, MODULE_ERROR_PLACE, "%s %s", rq->route->method, rq->route->path);
    return (struct log_pair){"route", rq->route ? route : NULL};
}

void module_error_log(const struct core_request *rq, enum bb_level level, const char *what,
                      const char *detail)
{
    char route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", module_error_module(rq->pub.host)},
        module_error_place(rq, route),
        {"detail", detail},
        {"request", rq->id},
    };

    log_pairs(level, what, pairs, sizeof pairs / sizeof *pairs);
}

int module_error(struct core_request *rq, const char *what, const char *detail)
{
    module_error_log(rq, BB_ERROR, what, detail);
    reply_error(rq, 500, "Internal server error");
    request_fail(rq, FAILED_ANSWERED);
    return 500;
}

/* Refuses a request whose handler runs only to find further problems, because it found none. */
static bool module_error_is_refused(struct core_request *rq)
{
    if (!rq->only_names_problems)
        return false;
    reply_problems(rq, 400, "The request is not valid", NULL);
    request_fail(rq, FAILED_ANSWERED);
    return true;
}

bool module_error_waits(struct core_request *rq, const char *what)
{
    if (module_error_is_refused(rq))
        return true;
    if (!rq->hook_depth)
        return false;
    rq->within_failed = true;
    module_error(rq, "hook within a transaction called a function that waits", what);
    return true;
}

bool module_error_wants_body(int status)
{
    return status != 204 && status != 304;
}

int module_error_no_json(struct core_request *rq, int status)
{
    char text[16];

    if (rq->json_oom || arena_starved(rq->arena))
        return reply_failure(rq, FAILED_MEMORY);
    snprintf(text, sizeof text, "%d", status);
    return module_error(rq, "module sent a response without JSON (did json_pack() fail?)", text);
}

void module_error_log_response(const struct core_request *rq, int status)
{
    int first = rq->response.status;
    bool late = rq->unanswered && !first && status >= STATUS_ERROR;
    char text[32];

    if (rq->kind != REQUEST_HTTP || (!late && (!first || first >= STATUS_ERROR)))
        return;
    snprintf(text, sizeof text, "%d, %d", first, status);
    if (late)
        module_error_log(rq, BB_ERROR,
                         "module sent an error response after its transaction was committed", text);
    else
        module_error_log(rq, BB_WARN, "module sent two responses", text);
}

bool module_error_free_response(struct core_request *rq, int status, int least, int *instead)
{
    char text[16];

    if (status < STATUS_ERROR && module_error_is_refused(rq)) {
        *instead = rq->response.status;
        return false;
    }
    bool late = rq->kind == REQUEST_HTTP && rq->committed && status >= STATUS_ERROR;

    if (!late && status >= least && status <= STATUS_MAX) {
        module_error_log_response(rq, status);
        return true;
    }
    snprintf(text, sizeof text, "%d", status);
    if (late) {
        module_error_log(rq, BB_ERROR,
                         "module sent an error response after its transaction was committed", text);
        *instead = rq->response.status;
        return false;
    }
    *instead = module_error(rq, "module sent a response with an invalid status", text);
    return false;
}

void module_error_check_answer(struct core_request *rq, int returned)
{
    int status = rq->response.status;
    char text[32];

    if (!status) {
        module_error(rq, "handler sent no response", NULL);
    } else if (rq->open_units && status < STATUS_ERROR && !rq->committed) {
        module_error(rq, "unit with statements was never committed", NULL);
    } else if (returned != status) {
        snprintf(text, sizeof text, "%d, %d", status, returned);
        module_error_log(rq, BB_ERROR, "handler returned a status that differs from its response",
                         text);
    }
}

/* Returns the beginning of a statement on one line, to be logged. */
static const char *module_error_first_words(const char *text, char out[WORDS])
{
    static const char blanks[] = " \t\r\n\f\v";
    size_t used = 0;

    for (text += strspn(text, blanks); *text && used + 1 < WORDS; text++) {
        bool blank = strchr(blanks, *text) != NULL;

        if (!blank || (used && out[used - 1] != ' '))
            out[used++] = blank ? ' ' : *text;
    }
    out[used] = '\0';
    return out;
}

void module_error_statement(struct core_request *rq, enum bb_level level)
{
    struct failure *failure = &rq->failure;
    char words[WORDS], route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", module_error_module(failure->host)},
        module_error_place(rq, route),
        {"statement",
         failure->sql ? module_error_first_words(failure->sql->text, words) : "COMMIT"},
        {"sqlstate", failure->sqlstate},
        {"reason", failure->text},
        {"request", rq->id},
    };

    if (failure->logged)
        return;
    failure->logged = true;
    log_pairs(level, "a statement failed", pairs, sizeof pairs / sizeof *pairs);
}
