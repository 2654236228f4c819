/* The names of time zones, read once from the system's zone data, so no request reads a disk. */
#include "modules/device/device.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int timezones_by_name(const FTSENT **one, const FTSENT **other)
{
    return strcmp((*one)->fts_name, (*other)->fts_name);
}

json_t *timezones_read(const char *directory)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_+-/";
    char *const roots[] = {(char *)(uintptr_t)directory, NULL};
    size_t start = strlen(directory) + 1; /* of the names in the paths */
    json_t *zones = json_object();
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, timezones_by_name);
    FTSENT *entry;
    int failed = zones && tree ? 0 : -1;

    while (!failed && (errno = 0, entry = fts_read(tree)) != NULL) {
        const char *name = entry->fts_pathlen > start ? entry->fts_path + start : "";
        bool named = strchr(name, '/') || isupper((unsigned char)*name);
        char magic[4] = "";

        /* "right/…" counts leap seconds, and "localtime" differs between hosts */
        if (entry->fts_info == FTS_D && (!strcmp(name, "posix") || !strcmp(name, "right")))
            failed = fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F || !named || name[strspn(name, letters)] ||
            !strncmp(name, "posix", 5) || !strncmp(name, "right/", 6) || !strcmp(name, "Factory"))
            continue;
        FILE *file = fopen(entry->fts_path, "re");

        if (!file) { /* with an incomplete list, devices in the missing zone would be refused */
            failed = errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -1 : 0;
            continue;
        }
        if (fread(magic, 1, sizeof magic, file) == sizeof magic &&
            !memcmp(magic, "TZif", sizeof magic))
            failed = json_object_set_new(zones, name, json_true());
        (void)fclose(file); /* only read */
    }
    if (failed || errno) {
        json_decref(zones);
        zones = NULL;
    }
    if (tree)
        (void)fts_close(tree); /* only read */
    return zones;
}
