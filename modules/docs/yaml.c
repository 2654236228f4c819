/* Writes JSON as YAML with libyaml. */
#include "docs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct writer {
    yaml_emitter_t emitter;
    FILE *out;
};

static int emit(struct writer *writer, yaml_event_t *event)
{
    return yaml_emitter_emit(&writer->emitter, event) ? 0 : -1;
}

/* Texts are quoted, so that none is read as a number, a date or a boolean. */
static int emit_scalar(struct writer *writer, const char *text, size_t length, bool quoted)
{
    yaml_event_t event;
    yaml_scalar_style_t style = quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;

    if (!yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)length,
                                      !quoted, quoted, style))
        return -1;
    return emit(writer, &event);
}

static int emit_number(struct writer *writer, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    int failed = text ? emit_scalar(writer, text, strlen(text), false) : -1;

    free(text);
    return failed;
}

static int emit_value(struct writer *writer, const json_t *value);

/* Writes a mapping; an empty one is written as {}. */
static int emit_object(struct writer *writer, json_t *object)
{
    yaml_event_t event;
    const char *key;
    json_t *value;

    if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) ||
        emit(writer, &event))
        return -1;
    json_object_foreach(object, key, value)
    {
        if (emit_scalar(writer, key, strlen(key), true) || emit_value(writer, value))
            return -1;
    }
    return yaml_mapping_end_event_initialize(&event) ? emit(writer, &event) : -1;
}

static int emit_array(struct writer *writer, const json_t *array)
{
    yaml_event_t event;
    const json_t *value;
    size_t i;

    if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) ||
        emit(writer, &event))
        return -1;
    json_array_foreach(array, i, value)
    {
        if (emit_value(writer, value))
            return -1;
    }
    return yaml_sequence_end_event_initialize(&event) ? emit(writer, &event) : -1;
}

/* The depth of the recursion is bounded by the modules' tables. */
static int emit_value(struct writer *writer, const json_t *value)
{
    if (json_is_object(value))
        return emit_object(writer, (json_t *)(uintptr_t)value);
    if (json_is_array(value))
        return emit_array(writer, value);
    if (json_is_string(value))
        return emit_scalar(writer, json_string_value(value), json_string_length(value), true);
    return emit_number(writer, value);
}

static int emit_document(struct writer *writer, const json_t *document)
{
    yaml_event_t event;

    if (!yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) || emit(writer, &event) ||
        !yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) ||
        emit(writer, &event) || emit_value(writer, document))
        return -1;
    if (!yaml_document_end_event_initialize(&event, 1) || emit(writer, &event) ||
        !yaml_stream_end_event_initialize(&event))
        return -1;
    return emit(writer, &event);
}

int docs_yaml(const json_t *document, struct docs_text *text)
{
    struct writer writer = {.out = open_memstream(&text->bytes, &text->length)};

    if (!writer.out)
        return -1;
    if (!yaml_emitter_initialize(&writer.emitter)) {
        fclose(writer.out);
        return -1;
    }
    yaml_emitter_set_output_file(&writer.emitter, writer.out);
    yaml_emitter_set_unicode(&writer.emitter, 1);
    int failed = emit_document(&writer, document);

    yaml_emitter_delete(&writer.emitter);
    return fclose(writer.out) || failed ? -1 : 0;
}
