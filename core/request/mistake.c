#include "core/request/mistake.h"

#include <stdio.h>

#include "core/module/sql_token.h"
#include "core/request/reply.h"

enum { WORDS = 80 /* of a statement, in the log */ };
enum { STATUS_MIN = 200, STATUS_ERROR = 400, STATUS_MAX = 599 };

const char *mistake_module(const struct bb_host *host)
{
    return host && host->module ? host->module->name : "busbar";
}

struct log_pair mistake_place(const struct core_request *rq, char route[MISTAKE_PLACE])
{
    if (rq->kind == REQUEST_JOB)
        return (struct log_pair){"job", rq->name};
    if (rq->kind == REQUEST_HOOK)
        return (struct log_pair){"hook", rq->name};
    if (rq->kind == REQUEST_COMMAND)
        return (struct log_pair){"command", rq->name};
    if (rq->route)
        snprintf(route, MISTAKE_PLACE, "%s %s", rq->route->method, rq->route->path);
    return (struct log_pair){"route", rq->route ? route : NULL};
}

static void tell(const struct core_request *rq, enum bb_level level, const char *what,
                 const char *detail)
{
    char route[MISTAKE_PLACE];
    const struct log_pair pairs[] = {
        {"module", mistake_module(rq->pub.host)},
        mistake_place(rq, route),
        {"detail", detail},
        {"request", rq->id},
    };

    log_pairs(level, what, pairs, sizeof pairs / sizeof *pairs);
}

void mistake_tell(const struct core_request *rq, const char *what, const char *detail)
{
    tell(rq, BB_ERROR, what, detail);
}

void mistake_warn(const struct core_request *rq, const char *what, const char *detail)
{
    tell(rq, BB_WARN, what, detail);
}

int mistake(struct core_request *rq, const char *what, const char *detail)
{
    mistake_tell(rq, what, detail);
    reply_error(rq, 500, "Internal server error");
    request_fail(rq, FAILED_ANSWERED);
    return 500;
}

/* A handler that found no mistake of its own goes on: no further than this. */
static bool is_refused(struct core_request *rq)
{
    if (!rq->only_names_problems)
        return false;
    reply_problems(rq, 400, "The request is not valid", NULL);
    request_fail(rq, FAILED_ANSWERED);
    return true;
}

bool mistake_waits(struct core_request *rq, const char *what)
{
    if (is_refused(rq))
        return true;
    if (!rq->within)
        return false;
    rq->within_failed = true;
    mistake(rq, "a hook within a transaction calls a function that waits", what);
    return true;
}

bool mistake_wants_body(int status)
{
    return status != 204 && status != 304;
}

int mistake_no_json(struct core_request *rq, int status)
{
    char text[16];

    if (rq->starved || arena_starved(rq->arena)) {
        request_fail(rq, FAILED_MEMORY);
        return reply_failed(rq);
    }
    snprintf(text, sizeof text, "%d", status);
    return mistake(rq, "a module answers without JSON (did json_pack() fail?)", text);
}

void mistake_tell_response(const struct core_request *rq, int status)
{
    int first = rq->response.status;
    char text[32];

    if (rq->kind != REQUEST_HTTP)
        return;
    snprintf(text, sizeof text, "%d, %d", first, status);
    if (rq->unanswered && !first && status >= STATUS_ERROR)
        mistake_tell(rq, "a module answers an error after its transaction was committed", text);
    else if (first && first < STATUS_ERROR)
        mistake_warn(rq, "a module answers twice", text);
}

bool mistake_free_response(struct core_request *rq, int status, int least, int *instead)
{
    char text[16];

    if (status < STATUS_ERROR && is_refused(rq)) {
        *instead = rq->response.status;
        return false;
    }
    snprintf(text, sizeof text, "%d", status);
    if (rq->kind == REQUEST_HTTP && rq->committed && status >= STATUS_ERROR) {
        mistake_tell(rq, "a module answers an error after its transaction was committed", text);
        *instead = rq->response.status;
        return false;
    }
    if (status >= least && status <= STATUS_MAX) {
        mistake_tell_response(rq, status);
        return true;
    }
    *instead = mistake(rq, "a module answers with a status out of range", text);
    return false;
}

void mistake_look_back(struct core_request *rq, int returned)
{
    int status = rq->response.status;
    char text[32];

    if (!status) {
        mistake(rq, "a handler gave no answer", NULL);
    } else if (rq->open_units && status < STATUS_ERROR && !rq->committed) {
        mistake(rq, "a unit with statements was never committed", NULL);
    } else if (returned != status) {
        snprintf(text, sizeof text, "%d, %d", status, returned);
        mistake_tell(rq, "a handler returned another status than it answered", text);
    }
}

void mistake_statement(struct core_request *rq, enum bb_level level)
{
    struct failure *failure = &rq->failure;
    char words[WORDS], route[MISTAKE_PLACE];
    const struct log_pair pairs[] = {
        {"module", mistake_module(failure->host)},
        mistake_place(rq, route),
        {"statement", failure->sql ? sql_words(failure->sql->text, words, sizeof words) : "COMMIT"},
        {"sqlstate", failure->sqlstate},
        {"reason", failure->text},
        {"request", rq->id},
    };

    if (failure->told)
        return;
    failure->told = true;
    log_pairs(level, "a statement failed", pairs, sizeof pairs / sizeof *pairs);
}
