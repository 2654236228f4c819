#include "modules/common/zones.h"

#include <busbar/moment.h>
#include <errno.h>
#include <fts.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 44
#define FILE_MAX 65536
#define DAY INT64_C(86400)

struct zone {
    char name[ZONE_NAME_MAX]; /* first, so that a name can be compared with a zone */
    size_t count;             /* number of changes */
    int32_t before;           /* seconds east of UTC before the first change */
    bool has_rule;            /* for times after the last change */
    struct zone_rule rule;
    struct {
        int64_t at; /* seconds since 1970 */
        int32_t offset;
    } change[];
};

/* The counts in a header, in the order of the file. */
enum { UT, STANDARD, LEAPS, CHANGES, TYPES, CHARACTERS, NUMBERS };

/* ---- rules ---- */

static bool zone_number(const char **at, int low, int high, int *number)
{
    *number = 0;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at) && *number < 1000; (*at)++)
        *number = *number * 10 + (**at - '0');
    return *number >= low && *number <= high;
}

/* Skips the name of a zone, such as "EST" or "<-03>". Returns false if the name is invalid. */
static bool zone_skip_name(const char **at)
{
    const char *start = *at;

    if (bb_moment_skip(at, '<')) {
        *at += strcspn(*at, ">");
        return bb_moment_skip(at, '>');
    }
    while (isalpha((unsigned char)**at))
        (*at)++;
    return *at - start >= 3;
}

/* Parses [+-]h[:mm[:ss]]. */
static bool zone_time(const char **at, int32_t *seconds)
{
    int part[3] = {0, 0, 0};
    int sign = **at == '-' ? -1 : 1;

    if (**at == '-' || **at == '+')
        (*at)++;
    for (int i = 0; i < 3; i++) {
        if (i && !bb_moment_skip(at, ':'))
            break;
        if (!zone_number(at, 0, i ? 59 : 167, &part[i]))
            return false;
    }
    *seconds = sign * (part[0] * 3600 + part[1] * 60 + part[2]);
    return true;
}

static bool zone_take_change(const char **at, struct zone_change *change)
{
    bool good;

    *change = (struct zone_change){.kind = 'D', .seconds = 7200};
    if (bb_moment_skip(at, 'M')) {
        change->kind = 'M';
        good = zone_number(at, 1, 12, &change->month) && bb_moment_skip(at, '.') &&
               zone_number(at, 1, 5, &change->week) && bb_moment_skip(at, '.') &&
               zone_number(at, 0, 6, &change->day);
    } else {
        change->kind = bb_moment_skip(at, 'J') ? 'J' : 'D';
        good = zone_number(at, change->kind == 'J', 365, &change->day);
    }
    return good && (!bb_moment_skip(at, '/') || zone_time(at, &change->seconds));
}

int zone_rule_parse(const char *text, struct zone_rule *rule)
{
    *rule = (struct zone_rule){.changes = false};
    if (!zone_skip_name(&text) || !zone_time(&text, &rule->standard))
        return -1;
    rule->standard = -rule->standard; /* in POSIX TZ, offsets west of UTC are positive */
    if (!*text)
        return 0;
    if (!zone_skip_name(&text))
        return -1;
    rule->summer = rule->standard + 3600;
    if (*text != ',') {
        if (!zone_time(&text, &rule->summer))
            return -1;
        rule->summer = -rule->summer;
    }
    rule->changes = true;
    if (!bb_moment_skip(&text, ',') || !zone_take_change(&text, &rule->begin) ||
        !bb_moment_skip(&text, ',') || !zone_take_change(&text, &rule->end) || *text)
        return -1;
    return 0;
}

/* Returns the year of a day (days since 1970). */
static int zone_year(int64_t days)
{
    int year = (int)(1970 + days * 400 / 146097); /* may be one year off */

    while (bb_moment_days(year, 1, 1) > days)
        year--;
    while (bb_moment_days(year + 1, 1, 1) <= days)
        year++;
    return year;
}

/* Returns the day of the change in days since 1970. */
static int64_t zone_change_day(const struct zone_change *change, int year)
{
    int64_t first = bb_moment_days(year, 1, 1);
    bool leap = bb_moment_days(year + 1, 1, 1) - first == 366;

    if (change->kind == 'D')
        return first + change->day;
    if (change->kind == 'J')
        return first + change->day - 1 + (leap && change->day >= 60);
    first = bb_moment_days(year, change->month, 1);
    int64_t next = bb_moment_days(year + change->month / 12, change->month % 12 + 1, 1);
    int64_t weekday = ((first + 4) % 7 + 7) % 7; /* of the month's first day; Sunday is 0 */
    int64_t day = first + (change->day - weekday + 7) % 7 + (change->week - 1) * 7;

    return day < next ? day : day - 7; /* week 5 is the last week */
}

int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at)
{
    if (!rule->changes)
        return rule->standard;
    int64_t local = at + rule->standard;
    int year = zone_year(local / DAY - (local % DAY < 0));
    int64_t begin =
        zone_change_day(&rule->begin, year) * DAY + rule->begin.seconds - rule->standard;
    int64_t end = zone_change_day(&rule->end, year) * DAY + rule->end.seconds - rule->summer;
    bool between = begin < end ? at >= begin && at < end : at >= begin || at < end;

    return between ? rule->summer : rule->standard;
}

/* ---- files ---- */

static int64_t zone_big_endian(const unsigned char *bytes, int size)
{
    uint64_t number = bytes[0] & 0x80 ? UINT64_MAX : 0;

    for (int i = 0; i < size; i++)
        number = number << 8 | bytes[i];
    return (int64_t)number;
}

/*
 * Reads the six counts of a header. Returns the length in bytes of the header and of the data after
 * it, in which a time has `width` bytes. Returns 0 if the header is invalid.
 */
static size_t zone_header(const unsigned char *at, size_t left, size_t width,
                          size_t numbers[NUMBERS])
{
    if (left < HEADER || memcmp(at, "TZif", 4) != 0 || at[4] < '2')
        return 0;
    for (int i = 0; i < NUMBERS; i++) {
        int64_t number = zone_big_endian(at + 20 + 4 * i, 4);

        if (number < 0 || number > FILE_MAX)
            return 0;
        numbers[i] = (size_t)number;
    }
    return HEADER + numbers[CHANGES] * (width + 1) + numbers[TYPES] * 6 + numbers[CHARACTERS] +
           numbers[LEAPS] * (width + 4) + numbers[STANDARD] + numbers[UT];
}

struct zone *zone_parse(const unsigned char *bytes, size_t length)
{
    size_t old[NUMBERS], numbers[NUMBERS];
    size_t start = zone_header(bytes, length, 4, old); /* skip the data of version 1 */
    size_t size =
        start && start <= length ? zone_header(bytes + start, length - start, 8, numbers) : 0;

    if (!size || size > length - start || !numbers[TYPES])
        return NULL;
    /* The data: times, each time's type number, types and more. A line with the rule follows. */
    const unsigned char *times = bytes + start + HEADER, *kinds = times + numbers[CHANGES] * 8;
    const unsigned char *types = kinds + numbers[CHANGES], *line = bytes + start + size;
    size_t left = length - start - size;
    const unsigned char *end = left > 1 ? memchr(line + 1, '\n', left - 1) : NULL;
    char rule[128];
    bool good = end && line[0] == '\n' && (size_t)(end - line) <= sizeof(rule);
    struct zone *zone =
        good ? calloc(1, sizeof(*zone) + numbers[CHANGES] * sizeof(zone->change[0])) : NULL;

    if (!zone)
        return NULL;
    zone->count = numbers[CHANGES];
    zone->before = (int32_t)zone_big_endian(types, 4);
    for (size_t i = 0; i < zone->count && good; i++) {
        zone->change[i].at = zone_big_endian(times + i * 8, 8);
        good = kinds[i] < numbers[TYPES] && (!i || zone->change[i].at > zone->change[i - 1].at);
        if (good)
            zone->change[i].offset = (int32_t)zone_big_endian(types + (size_t)kinds[i] * 6, 4);
    }
    snprintf(rule, sizeof(rule), "%.*s", (int)(end - line - 1), line + 1);
    zone->has_rule = *rule != '\0'; /* an empty line: the zone has no rule */
    if (good && (!zone->has_rule || zone_rule_parse(rule, &zone->rule) == 0))
        return zone;
    free(zone);
    return NULL;
}

int32_t zone_offset(const struct zone *zone, int64_t at)
{
    size_t low = 0, high = zone->count; /* the first change after `at` is in low..high */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->change[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->count && zone->has_rule)
        return zone_rule_offset(&zone->rule, at);
    return low ? zone->change[low - 1].offset : zone->before;
}

static int64_t zone_seconds(int64_t ms)
{
    return ms / 1000 - (ms % 1000 < 0);
}

int64_t zone_local(const struct zone *zone, int64_t at_ms)
{
    return at_ms + INT64_C(1000) * zone_offset(zone, zone_seconds(at_ms));
}

/*
 * Tries the offset that is valid a day before, and the one that is valid a day after. Other offsets
 * are possible only if a zone changes twice within two days. An offset fits if it is valid at the
 * instant that it yields. If neither fits, the clocks skip the local time.
 */
struct zone_times zone_times(const struct zone *zone, int64_t local_ms)
{
    int64_t local = zone_seconds(local_ms);
    int32_t before = zone_offset(zone, local - 86400), behind = zone_offset(zone, local + 86400);
    int64_t change = local - before;
    struct zone_times times = {.change = local_ms - INT64_C(1000) * before};

    if (zone_offset(zone, change) == before)
        times.at[times.count++] = times.change;
    if (behind != before && zone_offset(zone, local - behind) == behind)
        times.at[times.count++] = local_ms - INT64_C(1000) * behind;
    times.closes = local_ms % 1000 == 0 && behind != before &&
                   zone_offset(zone, change - 1) == before && zone_offset(zone, change) != before;
    return times;
}

int64_t zone_instant(const struct zone *zone, int64_t local_ms)
{
    struct zone_times times = zone_times(zone, local_ms);

    return times.count ? times.at[0] : times.change;
}

/* ---- all zones ---- */

static int zones_compare(const void *one, const void *other)
{
    return strcmp(one, other);
}

int zones_read(const char *directory, void **zones)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_+-/";
    char *const roots[] = {(char *)(uintptr_t)directory, NULL};
    size_t start = strlen(directory) + 1; /* where the name of a zone begins in a path */
    unsigned char *bytes = malloc(FILE_MAX);
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;
    bool failed = !bytes || !tree;

    while (!failed && (errno = 0, entry = fts_read(tree)) != NULL) {
        const char *name = entry->fts_pathlen > start ? entry->fts_path + start : "";
        bool named = strchr(name, '/') || (*name >= 'A' && *name <= 'Z');

        /* skip copies ("posix"), zones with leap seconds ("right"), and the host's "localtime" */
        if (entry->fts_info == FTS_D && (!strcmp(name, "posix") || !strcmp(name, "right")))
            failed = fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F || !named || name[strspn(name, letters)] ||
            strlen(name) >= ZONE_NAME_MAX || !strncmp(name, "posix", 5) ||
            !strncmp(name, "right/", 6) || !strcmp(name, "Factory"))
            continue;
        FILE *file = fopen(entry->fts_path, "re");
        struct zone *zone = file ? zone_parse(bytes, fread(bytes, 1, FILE_MAX, file)) : NULL;

        /* Fails instead of omitting a zone, because requests that name it would be refused. */
        failed = !zone && (errno == ENOMEM || errno == EMFILE || errno == ENFILE);
        if (zone && !tsearch(strcpy(zone->name, name), zones, zones_compare)) {
            free(zone);
            failed = true;
        }
        if (file)
            (void)fclose(file);
    }
    failed = failed || errno;
    if (tree)
        (void)fts_close(tree);
    free(bytes);
    if (!failed)
        return 0;
    zones_free(*zones);
    *zones = NULL;
    return -1;
}

void zones_free(void *zones)
{
    tdestroy(zones, free);
}

const struct zone *zones_find(void *const *zones, const char *name)
{
    struct zone *const *found = tfind(name, zones, zones_compare);

    return found ? *found : NULL;
}
