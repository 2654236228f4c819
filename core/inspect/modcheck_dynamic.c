/* What a module's file asks of the dynamic linker, see modcheck.h. */
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/inspect/modcheck.h"

/* Calls for each entry of the dynamic section, with its text where it is an offset of one. */
static void
each_entry(const struct modcheck *check,
           void (*look)(const struct modcheck *, const GElf_Dyn *, const char *, void *), void *arg)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Dyn entry;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_DYNAMIC, &section, &header)) != NULL)
        for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
            look(check, &entry,
                 entry.d_tag == DT_NEEDED
                     ? elf_strptr(check->file->elf, header.sh_link, entry.d_un.d_val)
                     : NULL,
                 arg);
}

/* Length of what names a library whatever its version: "libcurl" of libcurl.so.4. */
static size_t stem(const char *name)
{
    const char *end = strstr(name, ".so");

    return end ? (size_t)(end - name) : strlen(name);
}

struct sought {
    const char *name;
    char other[256]; /* the host's library of the same stem and another version */
};

static int compare_loaded(struct dl_phdr_info *loaded, size_t size, void *arg)
{
    struct sought *sought = arg;
    const char *slash = strrchr(loaded->dlpi_name, '/');
    const char *name = slash ? slash + 1 : loaded->dlpi_name;
    size_t length = stem(sought->name);

    (void)size;
    if (stem(name) != length || strncmp(name, sought->name, length) != 0)
        return 0;
    if (strcmp(name, sought->name) != 0)
        snprintf(sought->other, sizeof sought->other, "%s", name);
    else
        sought->other[0] = '\0';
    return !sought->other[0];
}

/* Builds of one library under several names, as Debian has them of libcurl. */
static const char *flavour(const char *name)
{
    return !strncmp(name, "libcurl-", 8) ? "libcurl" : NULL;
}

/* Libraries that take the place of malloc, or watch all of it. */
static const char *intruder(const char *name)
{
    static const char *const rows[][2] = {
        {"libjemalloc", "an allocator"}, {"libtcmalloc", "an allocator"},
        {"libmimalloc", "an allocator"}, {"libasan", "a sanitizer"},
        {"libtsan", "a sanitizer"},      {"libubsan", "a sanitizer"},
        {"liblsan", "a sanitizer"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strncmp(name, rows[i][0], strlen(rows[i][0])))
            return rows[i][1];
    return NULL;
}

static void look_needed(const struct modcheck *check, const GElf_Dyn *entry, const char *name,
                        void *arg)
{
    struct sought sought = {.name = name};

    (void)entry;
    (void)arg;
    if (!name)
        return;
    dl_iterate_phdr(compare_loaded, &sought);
    if (sought.other[0])
        modcheck_find(check,
                      "needs %s, and the host has %s: two versions of one library in a process; "
                      "build it on the system of the host",
                      name, sought.other);
    if (flavour(name))
        modcheck_find(check,
                      "needs %s beside the host's %s: two builds of one library in a process; "
                      "link to the host's",
                      name, flavour(name));
    if (intruder(name))
        modcheck_find(check,
                      "needs %s, %s, which concerns the whole process and is the host's to choose; "
                      "build without it",
                      name, intruder(name));
}

void modcheck_needed(const struct modcheck *check)
{
    each_entry(check, look_needed, NULL);
}

/* Linkers say it in either way, or in both. */
static void look_text(const struct modcheck *check, const GElf_Dyn *entry, const char *name,
                      void *arg)
{
    bool *found = arg;

    (void)check;
    (void)name;
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
        *found = true;
}

void modcheck_text(const struct modcheck *check)
{
    bool found = false;

    each_entry(check, look_text, &found);
    if (found)
        modcheck_find(check, "has relocations in its code, which is writable while it is loaded; "
                             "build all of it with -fPIC");
}
