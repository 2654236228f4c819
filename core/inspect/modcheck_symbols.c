/* What a module's file defines, see modcheck.h. */
#include <stdio.h>
#include <string.h>

#include <busbar/module.h>

#include "core/inspect/modcheck.h"

/* Old linkers export these of every shared object. */
static bool is_linkers(const char *name)
{
    static const char *const names[] = {"_init",  "_fini", "_end",       "_edata",
                                        "_etext", "end",   "__bss_start"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Absolute ones are the names of versions. */
static bool is_exported(const GElf_Sym *symbol)
{
    unsigned binding = GELF_ST_BIND(symbol->st_info), see = GELF_ST_VISIBILITY(symbol->st_other);

    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && binding != STB_LOCAL &&
           (see == STV_DEFAULT || see == STV_PROTECTED);
}

/* Names of what is too much, as far as a line takes them. */
struct excess {
    char names[200];
    size_t used, count;
};

static void excess_add(struct excess *excess, const char *name)
{
    size_t room = sizeof excess->names - excess->used;

    excess->count++;
    if (strlen(name) + 3 < room)
        excess->used += (size_t)snprintf(excess->names + excess->used, room, "%s%s",
                                         excess->used ? ", " : "", name);
}

static void tell_exports(const struct modcheck *check, const struct excess *excess, bool descriptor)
{
    if (excess->count)
        modcheck_find(
            check,
            "exports %zu symbols beside " BB_MODULE_SYMBOL ", which can take the place "
            "of others' (%s); build with -fvisibility=hidden, libraries within it with "
            "-Wl,--exclude-libs,ALL, C++ with a -Wl,--version-script that has " BB_MODULE_SYMBOL
            " alone",
            excess->count, excess->names);
    if (!descriptor)
        modcheck_find(check, "exports no data " BB_MODULE_SYMBOL ", so it is no module; define "
                             "BB_EXPORT const struct bb_module " BB_MODULE_SYMBOL);
}

void modcheck_exports(const struct modcheck *check)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_DYNSYM);
    struct excess excess = {.count = 0};
    bool descriptor = false;
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (!name || !is_exported(&symbol) || is_linkers(name))
            continue;
        if (strcmp(name, BB_MODULE_SYMBOL) != 0)
            excess_add(&excess, name);
        else if (GELF_ST_TYPE(symbol.st_info) == STT_OBJECT)
            descriptor = true;
    }
    tell_exports(check, &excess, descriptor);
}

/* A function that whoever has the library whole has, too. */
struct mark {
    const char *function, *library, *option;
};

static const struct mark *find_mark(const char *name)
{
    static const struct mark marks[] = {
        {"OPENSSL_init_crypto", "OpenSSL's libcrypto", "-lcrypto"},
        {"OPENSSL_init_ssl", "OpenSSL's libssl", "-lssl"},
        {"json_object_seed", "jansson", "-ljansson"},
        {"curl_easy_perform", "libcurl", "-lcurl"},
        {"PQconnectPoll", "libpq", "-lpq"},
        {"MHD_start_daemon", "libmicrohttpd", "-lmicrohttpd"},
        {"redisConnect", "hiredis", "-lhiredis"},
        {"yaml_parser_initialize", "libyaml", "-lyaml"},
        {"argon2_ctx", "libargon2", "-largon2"},
        {"malloc", "an allocator", "the C library's or the host's"},
        {"mallctl", "jemalloc", "the C library's or the host's"},
    };

    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (!strcmp(name, marks[i].function))
            return &marks[i];
    return NULL;
}

/* Names of hidden functions stand only in the table that strip removes. */
void modcheck_copies(const struct modcheck *check)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    GElf_Sym symbol;

    if (!symbols.count)
        symbols = elf_file_symbols(check->file, SHT_DYNSYM);
    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);
        const struct mark *mark = name ? find_mark(name) : NULL;

        if (mark && symbol.st_shndx != SHN_UNDEF && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
            modcheck_find(check,
                          "holds a copy of %s (it defines %s), a second one in the process with a "
                          "state of its own; link with %s, to the shared library",
                          mark->library, name, mark->option);
    }
}
