/* The names of time zones, read once from the system's zone data, so no request reads a disk. */
#include "modules/device/device.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Excludes "right/…", which counts leap seconds, and "localtime", which differs between hosts. */
static bool is_public(const char *name)
{
    return name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                             "0123456789_+-/")] == '\0' &&
           (strchr(name, '/') || isupper((unsigned char)*name)) && strncmp(name, "posix", 5) != 0 &&
           strncmp(name, "right/", 6) != 0 && strcmp(name, "Factory") != 0;
}

/* Adds the name if the file is a zone. Returns 0, or -1 if memory or descriptors run out. */
static int timezones_add(json_t *zones, const char *path, const char *name)
{
    char magic[4] = "";
    FILE *file = fopen(path, "re");

    if (!file) /* with an incomplete list, devices in the missing zone would be refused */
        return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -1 : 0;
    bool zone =
        fread(magic, 1, sizeof magic, file) == sizeof magic && !memcmp(magic, "TZif", sizeof magic);

    (void)fclose(file); /* only read */
    return zone ? json_object_set_new(zones, name, json_true()) : 0;
}

static int timezones_by_name(const FTSENT **one, const FTSENT **other)
{
    return strcmp((*one)->fts_name, (*other)->fts_name);
}

json_t *timezones_read(const char *directory)
{
    char *const roots[] = {(char *)(uintptr_t)directory, NULL};
    size_t start = strlen(directory) + 1; /* of the names in the paths */
    json_t *zones = json_object();
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, timezones_by_name);
    FTSENT *entry;
    int failed = zones && tree ? 0 : -1;

    while (!failed && (errno = 0, entry = fts_read(tree)) != NULL) {
        const char *name = entry->fts_pathlen > start ? entry->fts_path + start : "";

        if (entry->fts_info == FTS_D && (!strcmp(name, "posix") || !strcmp(name, "right")))
            failed = fts_set(tree, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F && is_public(name))
            failed = timezones_add(zones, entry->fts_path, name);
    }
    if (failed || errno) {
        json_decref(zones);
        zones = NULL;
    }
    if (tree)
        (void)fts_close(tree); /* only read */
    return zones;
}
