/* Formats a log line on the caller's stack. Private to the log. */
#ifndef CORE_LOG_FORMAT_H
#define CORE_LOG_FORMAT_H

#include "core/lib/log.h"

#define LOG_LINE_MAX 4096 /* including the newline; longer lines are cut and marked */

struct log_text {
    char bytes[LOG_LINE_MAX];
    size_t used;
    bool json;
    bool cut;
};

/* Call in this order: start, any number of pairs, end. */
void log_text_start(struct log_text *line, bool json, enum bb_level level, const char *message);
void log_text_pair(struct log_text *line, const char *key, const char *value);
void log_text_end(struct log_text *line);

#endif
