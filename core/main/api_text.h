/* Functions in the table for modules that take a text instead of a format and a va_list. */
#ifndef CORE_API_TEXT_H
#define CORE_API_TEXT_H

#include <busbar/api.h>

int api_open_fail_text(struct bb_host *host, const char *text);
void api_host_log_text(struct bb_host *host, enum bb_level level, const char *text);
int api_fail_text(struct bb_request *rq, int status, const char *text);
int api_invalid_text(struct bb_request *rq, const char *field, const char *problem);
int api_fail_listed_text(struct bb_request *rq, int status, json_t *errors, const char *text);
void api_warn_text(struct bb_request *rq, const char *text);
void api_log_text(struct bb_request *rq, enum bb_level level, const char *text);
void api_print_text(struct bb_request *rq, const char *text);

#endif
