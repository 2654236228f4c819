/*
 * Identifiers that people give their devices: one device is not registered twice under ids that
 * look the same. Nothing here blocks; any thread.
 */
#ifndef DEVICE_IDENTIFIER_H
#define DEVICE_IDENTIFIER_H

#include <busbar/busbar.h>

/*
 * The text in Unicode's form NFC, in the request's memory or `text` itself. *problem is set if it
 * has control characters or characters that are drawn as nothing.
 */
const char *identifier_normal(struct bb_request *rq, const char *text, const char **problem);

#endif
