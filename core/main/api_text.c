/*
 * Functions of struct bb_api that take a text, for modules in languages without va_list.
 */
#include "core/main/api_text.h"

#include <busbar/request.h>

int api_open_fail_text(struct bb_host *host, const char *text)
{
    return bb_open_fail(host, "%s", text);
}

void api_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    bb_host_log(host, level, "%s", text);
}

int api_fail_text(struct bb_request *rq, int status, const char *text)
{
    return bb_fail(rq, status, text ? "%s" : NULL, text);
}

int api_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return bb_invalid(rq, field, "%s", problem);
}

int api_fail_listed_text(struct bb_request *rq, int status, json_t *errors, const char *text)
{
    return bb_fail_listed(rq, status, errors, "%s", text);
}

void api_warn_text(struct bb_request *rq, const char *text)
{
    bb_warn(rq, "%s", text);
}

void api_log_text(struct bb_request *rq, enum bb_level level, const char *text)
{
    bb_log(rq, level, "%s", text);
}

void api_print_text(struct bb_request *rq, const char *text)
{
    bb_print(rq, "%s", text);
}
