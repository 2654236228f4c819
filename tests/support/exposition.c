#include "exposition.h"

#include <math.h>

#define NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:"

/* The metric family that is being parsed. */
struct family {
    char *name, *type;
    size_t first; /* index of the family's first sample */
};

struct reader {
    struct exposition *out;
    size_t room; /* size of the array of samples */
    struct family family;
    char *seen; /* names of families, separated by spaces */
};

/* A family begins with "# HELP name text", then "# TYPE name type", before any sample. */
static void read_comment(struct reader *reader, char *line)
{
    char *save = NULL, *kind = strtok_r(line + 1, " ", &save), *name = strtok_r(NULL, " ", &save);
    char *rest = strtok_r(NULL, "", &save);

    if (!kind || !name || !rest)
        ck_abort_msg("comment: %s", line);
    if (!strcmp(kind, "HELP")) {
        ck_assert_msg(!strstr(reader->seen, text(" %s ", name)), "%s is given twice", name);
        reader->seen = text("%s%s ", reader->seen, name);
        reader->family = (struct family){name, NULL, reader->out->count};
        return;
    }
    if (!reader->family.name || strcmp(name, reader->family.name) != 0 || strcmp(kind, "TYPE") != 0)
        ck_abort_msg("%s %s does not follow its HELP", kind, name);
    ck_assert_ptr_null(reader->family.type);
    ck_assert(!strcmp(rest, "counter") || !strcmp(rest, "gauge") || !strcmp(rest, "histogram"));
    reader->family.type = rest;
}

/* Checks name="value",…: names are identifiers, values have no unescaped quote, backslash or line
 * break. */
static void check_labels(const char *labels)
{
    while (*labels) {
        size_t length = strspn(labels, NAME);

        ck_assert_msg(length && !strncmp(labels + length, "=\"", 2), "labels: %s", labels);
        labels += length + 2;
        labels += strcspn(labels, "\"\\\n");
        ck_assert_msg(*labels == '"', "labels: %s", labels);
        labels++;
        if (*labels) {
            ck_assert_msg(*labels == ',' && labels[1], "labels: %s", labels);
            labels++;
        }
    }
}

static void check_family(const struct family *family, const char *name)
{
    if (!family->name || !family->type)
        ck_abort_msg("%s comes before its TYPE", name);
    size_t length = strlen(family->name);
    const char *tail = name + length;
    bool histogram = !strcmp(family->type, "histogram");

    ck_assert_msg(!strncmp(name, family->name, length), "%s among %s", name, family->name);
    if (histogram)
        ck_assert(!strcmp(tail, "_bucket") || !strcmp(tail, "_sum") || !strcmp(tail, "_count"));
    else
        ck_assert_str_eq(tail, "");
    if (!strcmp(family->type, "counter"))
        ck_assert_str_eq(name + strlen(name) - 6, "_total");
}

static void read_sample(struct reader *reader, char *line)
{
    struct exposition *out = reader->out;
    size_t length = strspn(line, NAME);
    char *labels = line + strlen(line), *at = line + length, *end;

    if (*at == '{') {
        end = strrchr(at, '}');
        ck_assert_msg(end, "%s", line);
        *at = *end = '\0'; /* cut: only the name remains in the line */
        labels = at + 1;
        check_labels(labels);
        at = end + 1;
    }
    ck_assert_msg(*at == ' ', "%s", line);
    *at++ = '\0';
    check_family(&reader->family, line);
    double value = strtod(at, &end);
    ck_assert_msg(end > at && !*end && isfinite(value), "%s{%s} %s", line, labels, at);
    if (out->count == reader->room) {
        reader->room = 2 * reader->room + 1000;
        out->samples = realloc(out->samples, reader->room * sizeof *out->samples);
        ck_assert_ptr_nonnull(out->samples);
    }
    out->samples[out->count++] = (struct sample){line, labels, value};
}

static int order(const void *one, const void *other)
{
    const struct sample *a = *(const struct sample *const *)one;
    const struct sample *b = *(const struct sample *const *)other;
    int names = strcmp(a->name, b->name);

    return names ? names : strcmp(a->labels, b->labels);
}

static void check_each_is_there_once(const struct exposition *out)
{
    const struct sample **sorted = calloc(out->count + 1, sizeof *sorted);

    ck_assert_ptr_nonnull(sorted);
    for (size_t i = 0; i < out->count; i++)
        sorted[i] = &out->samples[i];
    qsort(sorted, out->count, sizeof *sorted, order);
    for (size_t i = 1; i < out->count; i++)
        ck_assert_msg(order(&sorted[i - 1], &sorted[i]) != 0, "%s{%s} is given twice",
                      sorted[i]->name, sorted[i]->labels);
    free(sorted);
}

/* Returns the value of a sample with index `at` or above; -1: there is none. */
static double value_from(const struct exposition *out, size_t at, const char *name,
                         const char *labels)
{
    for (; at < out->count; at++)
        if (!strcmp(out->samples[at].name, name) && !strcmp(out->samples[at].labels, labels))
            return out->samples[at].value;
    return -1;
}

/* Buckets never decrease; the +Inf bucket equals the count, which follows the buckets. */
static void check_histograms(const struct exposition *out)
{
    double last = 0;

    for (size_t i = 0; i < out->count; i++) {
        const struct sample *sample = &out->samples[i];
        const char *le = strstr(sample->labels, ",le=\"");
        const char *tail = sample->name + strlen(sample->name);

        if (!le) {
            last = 0;
            continue;
        }
        ck_assert_msg(sample->value >= last, "%s falls", sample->labels);
        last = sample->value;
        if (strcmp(le, ",le=\"+Inf\"") != 0)
            continue;
        char *count = text("%.*s_count", (int)(tail - sample->name) - 7, sample->name);
        char *labels = text("%.*s", (int)(le - sample->labels), sample->labels);

        ck_assert(value_from(out, i, count, labels) == sample->value);
    }
}

static struct exposition *parse(const char *page)
{
    struct reader reader = {.out = kept(calloc(1, sizeof *reader.out)), .seen = text(" ")};
    char *copy = text("%s", page), *save = NULL;

    ck_assert(*page && page[strlen(page) - 1] == '\n' && !strstr(page, "\n\n"));
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (*line == '#')
            read_comment(&reader, line);
        else
            read_sample(&reader, line);
    }
    check_each_is_there_once(reader.out);
    check_histograms(reader.out);
    return reader.out;
}

struct exposition *exposition_get(const struct host *host, const char *token)
{
    struct answer *answer = ck_status(http(host, "GET", "/metrics", token, NULL), 200);

    ck_assert_str_eq(answer_header(answer, "Content-Type"),
                     "text/plain; version=0.0.4; charset=utf-8");
    return parse(answer->body);
}

double exposition_value(const struct exposition *exposition, const char *name, const char *labels)
{
    return value_from(exposition, 0, name, labels);
}
