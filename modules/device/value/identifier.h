/*
 * Checks and normalizes the identifiers that people give their devices, so that no device is
 * registered twice under ids that look the same. Nothing here blocks; any thread may call it.
 */
#ifndef DEVICE_IDENTIFIER_H
#define DEVICE_IDENTIFIER_H

#include <busbar/busbar.h>

/*
 * Returns the text in Unicode NFC, either `text` itself or a copy in the request's memory. Sets
 * *problem if the text has control characters or invisible characters.
 */
const char *identifier_normal(struct bb_request *rq, const char *text, const char **problem);

#endif
