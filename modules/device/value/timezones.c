#include "modules/device/value/timezones.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct timezones {
    char **names; /* sorted */
    size_t count, room;
};

/* "right/…" counts leap seconds, which nothing else does; "localtime" differs between hosts. */
static bool is_public(const char *name)
{
    return name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                             "0123456789_+-/")] == '\0' &&
           (strchr(name, '/') || isupper((unsigned char)*name)) && strncmp(name, "posix", 5) != 0 &&
           strncmp(name, "right/", 6) != 0 && strcmp(name, "Factory") != 0;
}

/* Returns 1 if it is a zone, 0 if not, -1 without the memory or descriptor to check. */
static int is_zone(const char *path)
{
    char magic[4] = "";
    FILE *file = fopen(path, "re");

    if (!file)
        return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -1 : 0;
    int zone =
        fread(magic, 1, sizeof magic, file) == sizeof magic && !memcmp(magic, "TZif", sizeof magic);

    (void)fclose(file); /* only read */
    return zone;
}

static int add(struct timezones *zones, const char *name)
{
    if (zones->count == zones->room) {
        size_t room = zones->room ? 2 * zones->room : 512;
        char **names = realloc(zones->names, room * sizeof *names);

        if (!names)
            return -1;
        zones->names = names;
        zones->room = room;
    }
    zones->names[zones->count] = strdup(name);
    return zones->names[zones->count] ? (zones->count++, 0) : -1;
}

static int compare(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* `start`: length of the path before the name. */
static int take(struct timezones *zones, FTS *tree, FTSENT *entry, size_t start)
{
    const char *name = entry->fts_pathlen > start ? entry->fts_path + start : "";

    if (entry->fts_info == FTS_D && (!strcmp(name, "posix") || !strcmp(name, "right")))
        return fts_set(tree, entry, FTS_SKIP);
    if (entry->fts_info != FTS_F || !is_public(name))
        return 0;
    int zone = is_zone(entry->fts_path);

    return zone > 0
               ? add(zones, name)
               : zone; /* with an incomplete list, devices in the missing zone would be refused */
}

static int read_all(struct timezones *zones, const char *directory)
{
    char *const roots[] = {(char *)(uintptr_t)directory, NULL};
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    int failed = tree ? 0 : -1;

    while (!failed) {
        errno = 0;
        FTSENT *entry = fts_read(tree);

        if (!entry) {
            failed = errno ? -1 : 0;
            break;
        }
        failed = take(zones, tree, entry, strlen(directory) + 1);
    }
    if (tree)
        (void)fts_close(tree); /* only read */
    if (!failed && zones->count)
        qsort(zones->names, zones->count, sizeof *zones->names, compare);
    return failed;
}

struct timezones *timezones_new(const char *directory)
{
    struct timezones *zones = calloc(1, sizeof *zones);

    if (zones && read_all(zones, directory)) {
        timezones_free(zones);
        return NULL;
    }
    return zones;
}

void timezones_free(struct timezones *zones)
{
    for (size_t i = 0; zones && i < zones->count; i++)
        free(zones->names[i]);
    if (zones)
        free(zones->names);
    free(zones);
}

bool timezones_have(const struct timezones *zones, const char *name)
{
    return zones->count &&
           bsearch(&name, zones->names, zones->count, sizeof *zones->names, compare) != NULL;
}

size_t timezones_count(const struct timezones *zones)
{
    return zones->count;
}

const char *timezones_name(const struct timezones *zones, size_t index)
{
    return zones->names[index];
}
