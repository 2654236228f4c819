/*
 * Fixture of the suites of devices: a host with the module on its own database. M is an
 * OrganizationAdmin of one organization, K an ApiUser of other organizations.
 */
#ifndef TESTS_DEVICES_H
#define TESTS_DEVICES_H

#include "stage.h"

#define DEVICE "/api/device"
#define UNKNOWN_UUID "0195f3a0-1111-7222-8333-444455556666"

extern struct person *m, *k;

/* Call it in a suite's set-up. */
void devices_open(const char *name);

/* Takes ownership of `device`. */
struct answer *device_post(const struct person *who, json_t *device);
struct answer *device_patch(const struct person *who, const char *key, json_t *device);
struct answer *device_get(const struct person *who, const char *key);

/* Returns a device with only an externalId. */
json_t *device_named(const char *external_id);

/* Returns the externalIds of a list in its order, "-" for none, separated by spaces. */
const char *device_names(const struct answer *list);

/* Returns a field of the record as JSON text. */
const char *device_field(const struct answer *answer, const char *name);

#endif
