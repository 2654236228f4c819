/* The ledger of deliveries: the webhook-ids of the table beside those that a real receiver counted.
 */
#ifndef TESTS_FAULT_DELIVERED_H
#define TESTS_FAULT_DELIVERED_H

#include "receive.h"
#include "scene.h"

/*
 * Waits for what is queued. Each message has a delivery, each delivery came to the path, and
 * nothing came that is none. What came twice is at most what a host that was killed so often had in
 * flight or not yet recorded. Prints what it counted.
 */
void delivered_all(struct scene *scene, const struct receiver *receiver, const char *path,
                   size_t kills);

#endif
