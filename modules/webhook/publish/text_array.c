/* Formats texts as a PostgreSQL array. */
#include <string.h>

#include "modules/webhook/publish/publish.h"

char *webhook_array(struct bb_request *rq, const char *const *texts)
{
    size_t size = 3;

    for (size_t i = 0; texts && texts[i]; i++)
        size += 2 * strlen(texts[i]) + 3;
    char *array = bb_alloc(rq, size), *at = array;

    *at++ = '{';
    for (size_t i = 0; texts && texts[i]; i++) {
        if (i > 0)
            *at++ = ',';
        *at++ = '"';
        for (const char *c = texts[i]; *c; c++) {
            if (*c == '"' || *c == '\\')
                *at++ = '\\';
            *at++ = *c;
        }
        *at++ = '"';
    }
    *at = '}';
    return array;
}
