#include "modules/reading/rules/zone_rule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/rules/moment.h"

#define DAY INT64_C(86400)

static bool skip(const char **at, char c)
{
    bool there = **at == c;

    *at += there;
    return there;
}

static bool take_number(const char **at, int low, int high, int *number)
{
    *number = 0;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at) && *number < 1000; (*at)++)
        *number = *number * 10 + (**at - '0');
    return *number >= low && *number <= high;
}

/* Skips "EST" or "<-03>": at least three characters. */
static bool skip_name(const char **at)
{
    const char *start = *at;

    if (skip(at, '<')) {
        *at += strcspn(*at, ">");
        return skip(at, '>');
    }
    while (isalpha((unsigned char)**at))
        (*at)++;
    return *at - start >= 3;
}

/* Parses [+-]h[:mm[:ss]]. */
static bool take_time(const char **at, int32_t *seconds)
{
    int part[3] = {0, 0, 0};
    int sign = **at == '-' ? -1 : 1;

    if (**at == '-' || **at == '+')
        (*at)++;
    for (int i = 0; i < 3; i++) {
        if (i && !skip(at, ':'))
            break;
        if (!take_number(at, 0, i ? 59 : 167, &part[i]))
            return false;
    }
    *seconds = sign * (part[0] * 3600 + part[1] * 60 + part[2]);
    return true;
}

static bool take_change(const char **at, struct zone_change *change)
{
    bool good;

    *change = (struct zone_change){.kind = 'D', .seconds = 7200};
    if (skip(at, 'M')) {
        change->kind = 'M';
        good = take_number(at, 1, 12, &change->month) && skip(at, '.') &&
               take_number(at, 1, 5, &change->week) && skip(at, '.') &&
               take_number(at, 0, 6, &change->day);
    } else {
        change->kind = skip(at, 'J') ? 'J' : 'D';
        good = take_number(at, change->kind == 'J', 365, &change->day);
    }
    return good && (!skip(at, '/') || take_time(at, &change->seconds));
}

int zone_rule_parse(const char *text, struct zone_rule *rule)
{
    *rule = (struct zone_rule){.changes = false};
    if (!skip_name(&text) || !take_time(&text, &rule->standard))
        return -1;
    rule->standard = -rule->standard; /* POSIX counts to the west */
    if (!*text)
        return 0;
    if (!skip_name(&text))
        return -1;
    rule->summer = rule->standard + 3600;
    if (*text != ',') {
        if (!take_time(&text, &rule->summer))
            return -1;
        rule->summer = -rule->summer;
    }
    rule->changes = true;
    if (!skip(&text, ',') || !take_change(&text, &rule->begin) || !skip(&text, ',') ||
        !take_change(&text, &rule->end) || *text)
        return -1;
    return 0;
}

/* Returns the day of the week; Sunday is 0. */
static int weekday(int64_t days)
{
    return (int)(((days + 4) % 7 + 7) % 7);
}

static int64_t change_day(const struct zone_change *change, int year)
{
    int64_t first = moment_days(year, 1, 1);
    bool leap = moment_days(year + 1, 1, 1) - first == 366;

    if (change->kind == 'D')
        return first + change->day;
    if (change->kind == 'J')
        return first + change->day - 1 + (leap && change->day >= 60);
    first = moment_days(year, change->month, 1);
    int64_t next = moment_days(year + change->month / 12, change->month % 12 + 1, 1);
    int64_t day = first + (change->day - weekday(first) + 7) % 7 + (change->week - 1) * 7;

    return day < next ? day : day - 7; /* week 5 is the last one */
}

/* Returns the local time, in seconds, of the change. */
static int64_t change_at(const struct zone_change *change, int year)
{
    return change_day(change, year) * DAY + change->seconds;
}

int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at)
{
    if (!rule->changes)
        return rule->standard;
    int64_t local = at + rule->standard;
    int year = moment_year(local / DAY - (local % DAY < 0));
    int64_t begin = change_at(&rule->begin, year) - rule->standard;
    int64_t end = change_at(&rule->end, year) - rule->summer;
    bool between = begin < end ? at >= begin && at < end : at >= begin || at < end;

    return between ? rule->summer : rule->standard;
}
