#include "devices.h"

struct person *k;

void devices_open(const char *name)
{
    stage_open(&(struct host_spec){.name = name, .modules = "[auth, device]"});
    m = person_make(host, admin, "devices.m", NULL);
    k = person_make(host, admin, "devices.k", "ApiUser");
}

struct answer *device_post(const struct person *who, json_t *device)
{
    return http(host, "POST", DEVICE, who->token, device);
}

struct answer *device_patch(const struct person *who, const char *key, json_t *device)
{
    return http(host, "PATCH", text(DEVICE "/%s", encoded(key)), who->token, device);
}

struct answer *device_get(const struct person *who, const char *key)
{
    return http(host, "GET", text(DEVICE "/%s", encoded(key)), who->token, NULL);
}

json_t *device_named(const char *external_id)
{
    return json_pack("{ss}", "externalId", external_id);
}

/* Returns a field of the record as JSON text. */
const char *device_field(const struct answer *answer, const char *name)
{
    return kept(json_dumps(json_object_get(answer->json, name), JSON_ENCODE_ANY | JSON_COMPACT));
}

const char *device_names(const struct answer *list)
{
    const char *names = "";
    size_t i;
    const json_t *device;

    json_array_foreach (list->json, i, device) {
        const char *name = json_string_value(json_object_get(device, "externalId"));

        names = text("%s%s%s", names, i ? " " : "", name ? name : "-");
    }
    return names;
}
