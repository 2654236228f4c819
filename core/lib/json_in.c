#include "core/lib/json_in.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool reading, missed; /* `missed`: an allocation failed during this call */
static _Thread_local bool *oom_flag;

/*
 * If memory runs out for a string, jansson drops a byte, tries again for each following byte, which
 * takes seconds for a long text, and returns a wrong value. So after the first failure all further
 * allocations of the call fail, too.
 */
static void *json_in_watched(size_t size)
{
    void *memory = reading && missed ? NULL : malloc(size);

    missed = missed || !memory;
    if (!memory && oom_flag)
        *oom_flag = true;
    return memory;
}

void json_watch_memory(void)
{
    json_set_alloc_funcs(json_in_watched, free);
}

bool *json_set_oom_flag(bool *flag)
{
    bool *before = oom_flag;

    oom_flag = flag;
    return before;
}

void json_note_oom(void)
{
    if (oom_flag)
        *oom_flag = true;
}

static json_t *json_in_refuse(struct json_problem *problem, const char *text, int line, int column)
{
    *problem = (struct json_problem){.line = line, .column = column};
    snprintf(problem->text, sizeof(problem->text), "%s", text);
    return NULL;
}

/* Sets line and column, in characters, as jansson counts them. */
static json_t *json_in_refuse_at(struct json_problem *problem, const char *text, const char *bytes,
                                 const char *at)
{
    int line = 1, column = 1;

    for (; bytes < at; bytes++) {
        column += ((unsigned char)*bytes & 0xC0) != 0x80;
        if (*bytes == '\n') {
            line++;
            column = 1;
        }
    }
    return json_in_refuse(problem, text, line, column);
}

/*
 * Returns the position of the first level or member beyond the limits, with the reason in *why;
 * NULL if there is none. The content of strings does not count.
 */
static const char *json_in_excess(const char *at, const char *end, size_t most, const char **why)
{
    bool in_string = false;
    size_t commas = 0;
    int depth = 0;

    for (; at < end; at++) {
        if (*at == '"') {
            in_string = !in_string;
        } else if (in_string) {
            at += *at == '\\';
        } else if (*at == '[' || *at == '{') {
            *why = "nested too deeply";
            if (++depth > JSON_DEPTH_MAX)
                return at;
        } else if (*at == ']' || *at == '}') {
            depth--;
        } else if (*at == ',') {
            *why = "too many values";
            if (++commas > most)
                return at;
        }
    }
    return NULL;
}

/* Returns a message for an error. jansson's own messages quote the input. */
static const char *json_in_words(enum json_error_code code)
{
    switch (code) {
    case json_error_out_of_memory:
        return "out of memory";
    case json_error_stack_overflow:
        return "nested too deeply";
    case json_error_invalid_utf8:
        return "invalid UTF-8";
    case json_error_premature_end_of_input:
        return "the text ends too early";
    case json_error_end_of_input_expected:
        return "unexpected text after the end";
    case json_error_duplicate_key:
        return "a key is given twice";
    case json_error_numeric_overflow:
        return "a number is too large";
    case json_error_null_character:
        return "the character NUL is not allowed";
    default:
        return "not valid JSON";
    }
}

/*
 * Returns NULL if the text is not JSON, or if memory ran out and a string lacks bytes (`missed`).
 */
static json_t *json_in_load(const char *bytes, size_t length, size_t flags, json_error_t *error)
{
    missed = false;
    reading = true;
    json_t *value = json_loadb(bytes, length, flags, error);

    reading = false;
    if (!missed)
        return value;
    json_decref(value);
    return NULL;
}

json_t *json_read(const char *bytes, size_t length, struct json_problem *problem)
{
    return json_read_most(bytes, length, JSON_COMMAS_MAX, problem);
}

json_t *json_read_most(const char *bytes, size_t length, size_t most, struct json_problem *problem)
{
    if (!length)
        return json_in_refuse(problem, "empty", 1, 1);
    const char *nul = memchr(bytes, 0, length);

    if (nul)
        return json_in_refuse_at(problem, "the character NUL is not allowed", bytes, nul);
    if (length >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3))
        return json_in_refuse(problem, "a byte order mark is not allowed", 1, 1);
    const char *why = NULL, *over = json_in_excess(bytes, bytes + length, most, &why);

    if (over)
        return json_in_refuse_at(problem, why, bytes, over);
    json_error_t error;
    json_t *value = json_in_load(bytes, length, JSON_REJECT_DUPLICATES, &error);

    if (value)
        return value;
    const char *problem_text =
        json_in_words(missed ? json_error_out_of_memory : json_error_code(&error));
    int line = error.line, column = error.column;
    bool lost = missed;

    /* A text, a number, true, false or null is valid JSON, but not allowed here. */
    if (!lost && json_error_code(&error) == json_error_invalid_syntax) {
        value = json_in_load(bytes, length, JSON_DECODE_ANY, &error);
        if (value)
            problem_text = "must be an object or a list";
        json_decref(value);
    }
    json_in_refuse(problem, problem_text, line, column);
    problem->memory = lost;
    return NULL;
}

json_t *json_read_stored(const char *text, bool *memory)
{
    json_error_t error;
    json_t *value = json_in_load(text, strlen(text), JSON_DECODE_ANY, &error);

    *memory = !value && missed;
    return value;
}
