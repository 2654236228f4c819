/* Settings: what the test has set, or the defaults of the module's table. */
#include <stdlib.h>
#include <string.h>

#include "core/field/field.h"
#include "core/field/settings_struct.h"
#include "fake/api.h"

/* What the test has set, or the default; NULL: neither. */
const char *fake_setting_text(struct bb_host *host, const char *name)
{
    const struct bb_field *field = fake_table_find(&host->module->settings, name);
    const struct pair *pair = fake_pair_find(fake_of(host)->settings, name, false);

    if (!field)
        fake_die("the module declares no setting %s", name);
    return pair ? pair->text : field->fallback;
}

int64_t fake_setting_int(struct bb_host *host, const char *name)
{
    const char *text = fake_setting_text(host, name);

    if (!text)
        return 0;
    return !strcmp(text, "true") ? 1 : strtoll(text, NULL, 10);
}

double fake_setting_number(struct bb_host *host, const char *name)
{
    const char *text = fake_setting_text(host, name);

    return text ? strtod(text, NULL) : 0;
}

json_t *fake_setting_json(struct bb_host *host, const char *name)
{
    const char *text = fake_setting_text(host, name);
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

    if (text && !json)
        fake_die("the setting %s is no JSON: %s", name, text);
    if (json)
        json_array_append_new(fake_of(host)->kept, json);
    return json;
}

const void *fake_settings(struct bb_host *host)
{
    return fake_of(host)->bound;
}

static void place(struct bb_fake *fake, const struct bb_field *field)
{
    struct setting_value value = {.field = field};

    if (field->type >= BB_OBJECT)
        value.json = fake_setting_json(&fake->host, field->name);
    else
        value.text = fake_setting_text(&fake->host, field->name);
    if (field->type == BB_INT || field->type == BB_BOOL)
        value.integer = fake_setting_int(&fake->host, field->name);
    if (field->type == BB_NUMBER)
        value.number = fake_setting_number(&fake->host, field->name);
    settings_struct_store(&value, fake->bound);
}

void fake_settings_place(struct bb_fake *fake)
{
    const struct bb_module *module = fake->host.module;
    const struct bb_table *settings = &module->settings;

    if (module->size <= offsetof(struct bb_module, settings_size) || !module->settings_size)
        return;
    fake->bound = fake_pool_alloc(&fake->pool, module->settings_size);
    for (size_t i = 0; i < settings->count; i++) {
        struct bb_field room;
        const struct bb_field *field = field_at(settings, i, &room);
        const char *fault = settings_struct_fault(settings, i, module->settings_size);

        if (fault)
            fake_die("the setting %s %s", field->name, fault);
        if (field->bind.size)
            place(fake, field);
    }
}
