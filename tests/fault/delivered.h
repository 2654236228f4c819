/* The ledger of deliveries: compares the webhook-ids in the table with the ones that a real
 * receiver counted. */
#ifndef TESTS_FAULT_DELIVERED_H
#define TESTS_FAULT_DELIVERED_H

#include "receive.h"
#include "scene.h"

/*
 * Waits for the queued deliveries, then fails the test unless each message has a delivery, each
 * delivery reached the path, and the path received nothing else. A delivery may arrive twice only
 * if it was in flight or not yet recorded when its host was killed; `kills` limits the number of
 * such deliveries. Prints the counts.
 */
void delivered_all(struct scene *scene, const struct receiver *receiver, const char *path,
                   size_t kills);

#endif
