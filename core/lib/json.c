#include "core/lib/json.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"

static _Thread_local bool reading, missed; /* json_in_load() runs; one of its allocations failed */
static _Thread_local bool *oom_flag;

/*
 * If memory runs out for a string, jansson loses a byte and tries to allocate at each later byte.
 * This takes seconds for a long text, and the value is wrong. So after the first failure all
 * further allocations of the call fail, too.
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

/* Sets *problem to the text and the line and column of `at` in characters. Returns NULL. */
static json_t *json_in_refuse(struct json_problem *problem, const char *text, const char *bytes,
                              const char *at)
{
    *problem = (struct json_problem){.line = 1, .column = 1};
    snprintf(problem->text, sizeof(problem->text), "%s", text);
    for (; bytes < at; bytes++) {
        problem->column += ((unsigned char)*bytes & 0xC0) != 0x80;
        if (*bytes == '\n') {
            problem->line++;
            problem->column = 1;
        }
    }
    return NULL;
}

/*
 * Returns the position of the first bracket or comma beyond the limits, with the reason in *why;
 * NULL if there is none. Brackets and commas in strings do not count.
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

/* Like json_loadb(), but returns NULL if memory ran out, even if jansson returned a value. */
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

/*
 * jsonb, JavaScript and json_write() print a number such as 1e20 with all its digits, which jansson
 * reads only if they fit in 64 bits. Returns a copy in which longer whole numbers have an exponent,
 * so that jansson reads them as doubles. The caller frees it. NULL: out of memory.
 */
static char *json_in_widen(const char *text)
{
    char *copy = malloc(2 * strlen(text) + 1), *out = copy;

    while (copy && *text) {
        size_t length = strspn(text, "-0123456789.");

        errno = 0;
        if (length) /* strtoll() at each blank would skip all later blanks: quadratic time */
            strtoll(text, NULL, 10);
        bool huge = errno == ERANGE && !memchr(text, '.', length) && (text[length] | 0x20) != 'e';

        if (*text == '"') { /* copies a string unchanged, with its quotes */
            for (length = 1; text[length] && text[length] != '"'; length++)
                length += text[length] == '\\' && text[length + 1];
            length += text[length] != '\0';
        } else if (!length) {
            length = 1;
        }
        out = mempcpy(out, text, length);
        text += length;
        if (huge)
            out = stpcpy(out, "e0");
    }
    if (copy)
        *out = '\0';
    return copy;
}

/*
 * Like json_in_load(), but a whole number that does not fit in 64 bits becomes a double, as in
 * JavaScript.
 */
static json_t *json_in_load_wide(const char *bytes, size_t length, size_t flags,
                                 json_error_t *error)
{
    json_t *value = json_in_load(bytes, length, flags, error);

    if (value || missed || json_error_code(error) != json_error_numeric_overflow)
        return value;
    char *text = strndup(bytes, length), *wide = text ? json_in_widen(text) : NULL;

    value = wide ? json_in_load(wide, strlen(wide), flags, error) : NULL;
    missed = missed || !wide;
    free(wide);
    free(text);
    return value;
}

json_t *json_read(const char *bytes, size_t length, size_t most, struct json_problem *problem)
{
    if (!length)
        return json_in_refuse(problem, "empty", bytes, bytes);
    const char *nul = memchr(bytes, 0, length);

    if (nul)
        return json_in_refuse(problem, "the character NUL is not allowed", bytes, nul);
    if (length >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3))
        return json_in_refuse(problem, "a byte order mark is not allowed", bytes, bytes);
    const char *why = NULL, *over = json_in_excess(bytes, bytes + length, most, &why);

    if (over)
        return json_in_refuse(problem, why, bytes, over);
    json_error_t error;
    json_t *value = json_in_load_wide(bytes, length, JSON_REJECT_DUPLICATES, &error);

    if (value)
        return value;
    /* Chooses a message for the error, because jansson's own messages quote the input. */
    enum json_error_code code = missed ? json_error_out_of_memory : json_error_code(&error);
    static const char *const words[] = {
        [json_error_out_of_memory] = "out of memory",
        [json_error_stack_overflow] = "nested too deeply",
        [json_error_invalid_utf8] = "invalid UTF-8",
        [json_error_premature_end_of_input] = "the text ends too early",
        [json_error_end_of_input_expected] = "unexpected text after the end",
        [json_error_duplicate_key] = "a key is given twice",
        [json_error_numeric_overflow] = "a number is too large",
        [json_error_null_character] = "the character NUL is not allowed",
    };

    const char *problem_text =
        code < sizeof words / sizeof *words && words[code] ? words[code] : "not valid JSON";
    int line = error.line, column = error.column;
    bool lost = missed;

    /* A text, a number, true, false or null is valid JSON, but not allowed here. */
    if (!lost && json_error_code(&error) == json_error_invalid_syntax) {
        value = json_in_load(bytes, length, JSON_DECODE_ANY, &error);
        if (value)
            problem_text = "must be an object or a list";
        json_decref(value);
    }
    json_in_refuse(problem, problem_text, bytes, bytes);
    problem->line = line;
    problem->column = column;
    problem->memory = lost;
    return NULL;
}

json_t *json_read_stored(const char *text, bool *memory)
{
    json_error_t error;
    json_t *value = json_in_load_wide(text, strlen(text), JSON_DECODE_ANY, &error);

    *memory = !value && missed;
    return value;
}

#define LEVELS_MAX 128
#define REPLACEMENT "\xef\xbf\xbd"
#define EACH UINT64_C(0x0101010101010101) /* the same value in each of eight bytes */
#define EXACT_MAX 9007199254740992.0      /* 2^53: every whole number up to here is a double */

struct sink {
    char *bytes;
    size_t used, size;
};

/* Appends bytes. Returns 0, or -1 if memory ran out. */
static int json_out_put(struct sink *sink, const char *bytes, size_t length)
{
    if (length >= sink->size - sink->used) { /* room for a NUL, too */
        size_t size = sink->size;

        while (size - sink->used <= length) {
            if (size > SIZE_MAX / 2)
                return -1;
            size *= 2;
        }
        char *bigger = realloc(sink->bytes, size);

        if (!bigger)
            return -1;
        sink->bytes = bigger;
        sink->size = size;
    }
    memcpy(sink->bytes + sink->used, bytes, length);
    sink->used += length;
    return 0;
}

static int json_out_put_escape(struct sink *sink, unsigned char c)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char escape[8];

    for (const char *s = shorts; *s; s += 2) {
        if ((unsigned char)s[0] == c)
            return json_out_put(sink, (char[]){'\\', s[1]}, 2);
    }
    snprintf(escape, sizeof(escape), "\\u%04x", c);
    return json_out_put(sink, escape, 6);
}

/* Returns whether any of the 8 bytes of the word is below `limit`, which is at most 0x80. */
static bool json_out_one_below(uint64_t word, unsigned char limit)
{
    return (word - limit * EACH) & ~word & 0x80 * EACH;
}

/* Writes `before`, the escaped string, and `after`. The quotes are in `before` and `after`. */
static int json_out_put_string(struct sink *sink, const char *before, const char *text,
                               size_t length, const char *after)
{
    if (!text_utf8(text, length) || json_out_put(sink, before, strlen(before)))
        return -1;
    for (;;) {
        /* Bytes that need no escape are copied together. Checks eight at a time. */
        size_t run = 0;

        while (run + sizeof(uint64_t) <= length) {
            uint64_t word;

            memcpy(&word, text + run, sizeof(word));
            if (json_out_one_below(word, 0x20) || json_out_one_below(word ^ '"' * EACH, 1) ||
                json_out_one_below(word ^ '\\' * EACH, 1))
                break;
            run += sizeof(word);
        }
        while (run < length && (unsigned char)text[run] >= 0x20 && text[run] != '"' &&
               text[run] != '\\')
            run++;

        if (json_out_put(sink, text, run))
            return -1;
        if (run == length)
            return json_out_put(sink, after, strlen(after));
        if (json_out_put_escape(sink, (unsigned char)text[run]))
            return -1;
        text += run + 1;
        length -= run + 1;
    }
}

/* Increments the last digit ("1.2e+05" to "1.3e+05"); false if all digits are 9. */
static bool json_out_next_digits(char *text)
{
    char *at = strchr(text, 'e') - 1;

    for (; at >= text; at--) {
        if (*at == '.')
            continue;
        if (*at != '9') {
            ++*at;
            return true;
        }
        *at = '0';
    }
    return false;
}

/*
 * Writes the shortest decimal that reads back as `number` (> 0), as "d.ddde±xx", perhaps padded
 * with zeros. Tries 15 digits first: if a shorter decimal reads back, these digits are that decimal
 * and zeros. Subnormal numbers have a lower precision, so tries 1 digit first for them. For a power
 * of two, sometimes only the next higher decimal reads back.
 */
static void json_out_shortest(double number, char *out, size_t size)
{
    for (int digits = number < 2.3e-308 ? 1 : 15; digits < 17; digits++) {
        snprintf(out, size, "%.*e", digits - 1, number);
        if (strtod(out, NULL) == number)
            return;
        if (json_out_next_digits(out) && strtod(out, NULL) == number)
            return;
    }
    snprintf(out, size, "%.16e", number);
}

/* Formats digits and a decimal exponent by the rules of ECMA-262, Number::toString. */
static int json_out_lay_out(char *out, size_t size, const char *digits, int count, int exponent)
{
    int point = exponent + 1; /* number of digits before the decimal point */

    if (count <= point && point <= 21)
        return snprintf(out, size, "%s%.*s", digits, point - count, "00000000000000000000");
    if (point > 0 && point <= 21)
        return snprintf(out, size, "%.*s.%s", point, digits, digits + point);
    if (point > -6 && point <= 0)
        return snprintf(out, size, "0.%.*s%s", -point, "00000", digits);
    return snprintf(out, size, "%c%s%se%+d", digits[0], count > 1 ? "." : "", digits + 1, exponent);
}

static int json_out_put_real(struct sink *sink, double number)
{
    char text[32], digits[20], out[40];
    int count = 0;

    if (!isfinite(number))
        return -1;
    if (fabs(number) < EXACT_MAX && number == trunc(number))
        return json_out_put(sink, out, text_integer((int64_t)number, out));
    json_out_shortest(fabs(number), text, sizeof(text));
    char *e = strchr(text, 'e');

    for (char *at = text; at < e; at++) {
        if (*at != '.')
            digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    int length = json_out_lay_out(out, sizeof(out), digits, count, (int)strtol(e + 1, NULL, 10));

    if (number < 0 && json_out_put(sink, "-", 1))
        return -1;
    return json_out_put(sink, out, (size_t)length);
}

static int json_out_put_value(struct sink *sink, const json_t *value, int levels)
{
    json_t *object = (json_t *)value; /* iterators take a non-const pointer but do not write */
    const char *before;
    char text[TEXT_INTEGER_SIZE];

    if (!value || levels < 0)
        return -1;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        before = "{\"";
        for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
            if (json_out_put_string(sink, before, json_object_iter_key(at),
                                    json_object_iter_key_len(at), "\":") ||
                json_out_put_value(sink, json_object_iter_value(at), levels - 1))
                return -1;
            before = ",\"";
        }
        return *before == '{' ? json_out_put(sink, "{}", 2) : json_out_put(sink, "}", 1);
    case JSON_ARRAY:
        before = "[";
        for (size_t i = 0; i < json_array_size(value); i++, before = ",") {
            if (json_out_put(sink, before, 1) ||
                json_out_put_value(sink, json_array_get(value, i), levels - 1))
                return -1;
        }
        return *before == '[' ? json_out_put(sink, "[]", 2) : json_out_put(sink, "]", 1);
    case JSON_STRING:
        return json_out_put_string(sink, "\"", json_string_value(value), json_string_length(value),
                                   "\"");
    case JSON_INTEGER:
        return json_out_put(sink, text, text_integer(json_integer_value(value), text));
    case JSON_REAL:
        return json_out_put_real(sink, json_real_value(value));
    case JSON_TRUE:
        return json_out_put(sink, "true", 4);
    case JSON_FALSE:
        return json_out_put(sink, "false", 5);
    default:
        return json_out_put(sink, "null", 4);
    }
}

char *json_write(const json_t *value, size_t *length)
{
    struct sink sink = {.size = 512};

    sink.bytes = malloc(sink.size);
    if (!sink.bytes || json_out_put_value(&sink, value, LEVELS_MAX)) {
        free(sink.bytes);
        return NULL;
    }
    sink.bytes[sink.used] = '\0';
    if (length)
        *length = sink.used;
    return sink.bytes;
}

json_t *json_out_text(const char *text)
{
    size_t left = strlen(text), size;

    if (text_utf8(text, left))
        return json_string(text);
    char *bytes = malloc(left * strlen(REPLACEMENT)), *end = bytes;

    for (; bytes && left; text += size, left -= size) {
        bool valid = text_code_point(text, left, &size) >= 0;
        size_t length = valid ? size : strlen(REPLACEMENT);

        memcpy(end, valid ? text : REPLACEMENT, length);
        end += length;
    }
    json_t *json = bytes ? json_stringn(bytes, (size_t)(end - bytes)) : NULL;

    free(bytes);
    return json;
}
