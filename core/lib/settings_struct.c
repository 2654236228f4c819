#include "core/lib/settings_struct.h"

#include <stdalign.h>
#include <string.h>

#include "core/lib/field.h"

struct shape {
    size_t size, align;
};

#define SHAPE(type)                                                                                \
    (struct shape)                                                                                 \
    {                                                                                              \
        sizeof(type), alignof(type)                                                                \
    }

/* Returns the C type for a setting of this type. */
static struct shape shape_of(enum bb_type type)
{
    switch (type) {
    case BB_INT:
        return SHAPE(int64_t);
    case BB_NUMBER:
        return SHAPE(double);
    case BB_BOOL:
        return SHAPE(bool);
    case BB_OBJECT:
    case BB_LIST:
    case BB_ANY:
        return SHAPE(json_t *);
    default:
        return SHAPE(const char *);
    }
}

static bool overlap(const struct bb_bind *a, const struct bb_bind *b)
{
    return a->size && b->size && a->offset < (size_t)b->offset + b->size &&
           b->offset < (size_t)a->offset + a->size;
}

const char *settings_struct_fault(const struct bb_table *settings, size_t row, size_t size)
{
    struct bb_field room, other_room;
    const struct bb_field *field = field_at(settings, row, &room);
    struct shape shape = shape_of(field->type);

    if (!field->bind.size)
        return NULL;
    if (field->bind.size != shape.size)
        return "is bound to a member that is not of its type's size";
    if (field->bind.offset % shape.align)
        return "is bound to a place that its type cannot have";
    if (field->bind.offset > size || size - field->bind.offset < shape.size)
        return "is bound to a place outside of `settings_size`";
    for (size_t i = 0; i < row; i++)
        if (overlap(&field_at(settings, i, &other_room)->bind, &field->bind))
            return "is bound to a member that another setting is bound to";
    return NULL;
}

void settings_struct_store(const struct setting_value *value, void *settings)
{
    const struct bb_field *field = value->field;
    void *member = (char *)settings + field->bind.offset;

    if (!field->bind.size)
        return;
    switch (field->type) {
    case BB_INT:
        *(int64_t *)member = value->integer;
        break;
    case BB_NUMBER:
        *(double *)member = value->number;
        break;
    case BB_BOOL:
        *(bool *)member = value->integer != 0;
        break;
    case BB_OBJECT:
    case BB_LIST:
    case BB_ANY:
        *(json_t **)member = value->json;
        break;
    default:
        *(const char **)member = value->text;
    }
}
