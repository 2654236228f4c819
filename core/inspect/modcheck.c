#include "core/inspect/modcheck.h"

#include <ctype.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <busbar/module.h>

#include "core/module/elf_file.h"

/* The arguments of each check. */
struct modcheck {
    const struct elf_file *file;
    const char *path;
    struct setting_problems *findings;
};

BB_PRINTF(2, 3) static void finding(const struct modcheck *check, const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    setting_problem(check->findings, "%s: %s", check->path, text);
}

/* ---- the runtime libraries of compilers ---- */

/*
 * A language makes each module carry some state: where C++ and Rust look for the handler of an
 * exception, and the hooks, locks and counters of panics in Rust's standard library. It belongs to
 * their library as errno belongs to the C library: it is made for threads, and belongs to no
 * request and no generation. Code is never unloaded, so functions that the runtime registers for
 * the end of a thread or process stay valid.
 */

/* With the length before it, as names are mangled. The last ones are parts of std. */
static bool is_rust_crate(const char *name)
{
    static const char *const crates[] = {"3std",       "4core",  "5alloc",     "12panic_unwind",
                                         "6object",    "5gimli", "9addr2line", "14rustc_demangle",
                                         "9hashbrown", "6memchr"};

    for (size_t i = 0; i < sizeof crates / sizeof crates[0]; i++)
        if (!strncmp(name, crates[i], strlen(crates[i])))
            return true;
    return false;
}

/*
 * Symbols are mangled as _ZN3std… by older compilers, as _R…Cs<hash>_3std… by newer ones. The first
 * crate in the name is the owner.
 */
static bool is_rusts(const char *name)
{
    if (!strncmp(name, "_ZN", 3))
        return is_rust_crate(name + 3);
    if (strncmp(name, "_R", 2) != 0)
        return false;
    const char *crate = strstr(name, "Cs");

    for (crate = crate ? crate + 2 : ""; isalnum((unsigned char)*crate); crate++) {
    }
    return *crate == '_' && is_rust_crate(crate + 1);
}

bool modcheck_is_runtimes(const char *name)
{
    static const char *const beginnings[] = {
        "DW.ref.", /* the address of a personality, for exceptions */
        "__rust_",     "_rust_extern_with_linkage_",
        "completed.",  "__dso_handle", /* crtstuff's */
        "__TMC_END__", "__TMC_LIST__"};

    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return is_rusts(name);
}

/* ---- what a module's file defines ---- */

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

/* The names of excess symbols, as many as fit in a line. */
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
        finding(check,
                "exports %zu symbols in addition to " BB_MODULE_SYMBOL ", which can take the place "
                "of others' (%s); build with -fvisibility=hidden, libraries within it with "
                "-Wl,--exclude-libs,ALL, C++ with a -Wl,--version-script that has " BB_MODULE_SYMBOL
                " alone",
                excess->count, excess->names);
    if (!descriptor)
        finding(check, "exports no data " BB_MODULE_SYMBOL ", so it is not a module; define "
                       "BB_EXPORT const struct bb_module " BB_MODULE_SYMBOL);
}

static void check_exports(const struct modcheck *check)
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

/* A function that every complete copy of a library defines. */
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
static void check_copies(const struct modcheck *check)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    GElf_Sym symbol;

    if (!symbols.count)
        symbols = elf_file_symbols(check->file, SHT_DYNSYM);
    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);
        const struct mark *mark = name ? find_mark(name) : NULL;

        if (mark && symbol.st_shndx != SHN_UNDEF && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
            finding(check,
                    "holds a copy of %s (it defines %s), a second one in the process with "
                    "separate state; link with %s, to the shared library",
                    mark->library, name, mark->option);
    }
}

/* ---- data of a module that can change ---- */

/* The padding that each object of the runtime may need in a section. */
enum { WORD_BYTES = 8 };

#define REMEDY                                                                                     \
    "which all generations would share, and threads without a lock; make it const, or a part of "  \
    "the state that open returns"

#define TLS_REMEDY                                                                                 \
    "but fibers share threads and never keep to one; keep it in the request's memory or in the "   \
    "state"

/* Written by the linker or the toolchain alone, or read-only once it is relocated. */
static bool is_settled(const char *name)
{
    static const char *const names[] = {".init_array", ".fini_array", ".preinit_array",
                                        ".ctors",      ".dtors",      ".dynamic",
                                        ".got",        ".got.plt",    ".tm_clone_table"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return !strncmp(name, ".data.rel.ro", 12);
}

/* The explained part of a section. */
struct account {
    size_t found;     /* objects of the module, which were reported */
    uint64_t runtime; /* bytes that the compiler's runtime may have */
};

static void find_object(const struct modcheck *check, struct account *account, const char *section,
                        const char *name, const GElf_Sym *symbol)
{
    if (modcheck_is_runtimes(name)) {
        account->runtime += symbol->st_size + WORD_BYTES;
        return;
    }
    account->found++;
    if (GELF_ST_TYPE(symbol->st_info) == STT_TLS)
        finding(check, "has thread-local storage: %s (%s, %" PRIu64 " bytes), " TLS_REMEDY, name,
                section, (uint64_t)symbol->st_size);
    else
        finding(check, "has writable data: %s (%s, %" PRIu64 " bytes), " REMEDY, name, section,
                (uint64_t)symbol->st_size);
}

/* Finds the objects of a section by name. */
static struct account find_objects(const struct modcheck *check, size_t index, const char *section,
                                   unsigned type)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    struct account account = {0, 0};
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (name && symbol.st_shndx == index && GELF_ST_TYPE(symbol.st_info) == type)
            find_object(check, &account, section, name, &symbol);
    }
    return account;
}

/* Symbols of other libraries that C++ exceptions need; stripped files still have them. */
static bool is_for_exceptions(const char *name)
{
    return !strcmp(name, "__gxx_personality_v0") || !strncmp(name, "_ZTI", 4);
}

/* Bytes of a section that the linker fills with addresses for exceptions. */
static uint64_t for_exceptions(const struct modcheck *check, const GElf_Shdr *header)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_DYNSYM);
    Elf_Scn *section = NULL;
    GElf_Shdr relocations;
    uint64_t bytes = 0;
    GElf_Rela rela;
    GElf_Sym symbol;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &relocations)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++) {
            const char *name = elf_symbol(&symbols, GELF_R_SYM(rela.r_info), &symbol);

            if (name && is_for_exceptions(name) && rela.r_offset >= header->sh_addr &&
                rela.r_offset - header->sh_addr < header->sh_size)
                bytes += WORD_BYTES;
        }
    return bytes;
}

static void check_writable(const struct modcheck *check, Elf_Scn *section, const GElf_Shdr *header,
                           const char *name)
{
    struct account account = find_objects(check, elf_ndxscn(section), name, STT_OBJECT);

    /* Compilers put a word into every shared object. */
    account.runtime += WORD_BYTES + for_exceptions(check, header);
    if (!account.found && header->sh_size > account.runtime)
        finding(check, "has writable data: %" PRIu64 " bytes in %s, " REMEDY,
                (uint64_t)header->sh_size, name);
}

static void check_writable_sections(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_WRITE) ||
            header.sh_flags & SHF_TLS || !(header.sh_flags & SHF_ALLOC))
            continue;
        const char *name = elf_file_section_name(check->file, &header);

        if (!is_settled(name))
            check_writable(check, section, &header, name);
    }
}

static void check_thread_local(const struct modcheck *check, Elf_Scn *section,
                               const GElf_Shdr *header)
{
    const char *name = elf_file_section_name(check->file, header);
    struct account account = find_objects(check, elf_ndxscn(section), name, STT_TLS);

    if (!account.found && header->sh_size > account.runtime)
        finding(check, "has thread-local storage: %" PRIu64 " bytes in %s, " TLS_REMEDY,
                (uint64_t)header->sh_size, name);
}

static void check_thread_local_sections(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL)
        if (gelf_getshdr(section, &header) && header.sh_flags & SHF_TLS && header.sh_size)
            check_thread_local(check, section, &header);
}

/* ---- code that would run when a module's file is loaded or unloaded ---- */

#if defined(__x86_64__)
enum { RELATIVE = R_X86_64_RELATIVE, INDIRECT = R_X86_64_IRELATIVE };
#elif defined(__aarch64__)
enum { RELATIVE = R_AARCH64_RELATIVE, INDIRECT = R_AARCH64_IRELATIVE };
#else
enum { RELATIVE = -1, INDIRECT = -2 };
#endif

#define START_REMEDY                                                                               \
    "outside of the four verbs, even for `busbar check`, and whatever generation it is; move it "  \
    "to open and close"

enum { ENTRIES_MAX = 64 /* of a list, that are named one by one */ };

/* The one function that the compiler's own start-up files put into each list, and what Rust's
 * standard library has there: it keeps the arguments of the program in mind. */
static bool is_toolchains(const char *name)
{
    return !strcmp(name, "frame_dummy") || !strcmp(name, "__do_global_dtors_aux") ||
           modcheck_is_runtimes(name);
}

/* The name of the function at an address; NULL: none, or the file is stripped. */
static const char *function_at(const struct modcheck *check, uint64_t address)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (name && symbol.st_value == address && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
            return name;
    }
    return NULL;
}

/* The address that a relocation puts at a place; 0: none does. */
static uint64_t address_put_at(const struct modcheck *check, uint64_t place)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Rela rela;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &header)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++)
            if (rela.r_offset == place && (int)GELF_R_TYPE(rela.r_info) == RELATIVE)
                return (uint64_t)rela.r_addend;
    return 0;
}

/* The address in a list's entry: put there by a relocation, or (packed ones) there already. */
static uint64_t entry_at(const struct modcheck *check, const GElf_Shdr *header, Elf_Data *data,
                         uint64_t at)
{
    uint64_t address = address_put_at(check, header->sh_addr + at);

    if (!address && data && data->d_buf && at + sizeof address <= data->d_size)
        memcpy(&address, (const char *)data->d_buf + at, sizeof address);
    return address;
}

/* Entries with the toolchain's name pass, and one without any name. */
static void check_list(const struct modcheck *check, Elf_Scn *section, const GElf_Shdr *header,
                       const char *what)
{
    Elf_Data *data = elf_getdata(section, NULL);
    uint64_t size = data ? data->d_size : 0; /* what the header says may be anything */
    unsigned nameless = 0;

    if (size / sizeof(uint64_t) > ENTRIES_MAX) {
        finding(check, "has %" PRIu64 " %ss, which run " START_REMEDY, size / sizeof(uint64_t),
                what);
        return;
    }
    for (uint64_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        const char *name = function_at(check, entry_at(check, header, data, at));

        if (name && is_toolchains(name))
            continue;
        if (!name && !nameless++)
            continue;
        finding(check, "has a %s: %s, which runs " START_REMEDY, what, name ? name : "a function");
    }
}

static void check_lists(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header))
            continue;
        const char *name = elf_file_section_name(check->file, &header);

        if (header.sh_type == SHT_INIT_ARRAY || header.sh_type == SHT_PREINIT_ARRAY)
            check_list(check, section, &header, "constructor");
        else if (header.sh_type == SHT_FINI_ARRAY)
            check_list(check, section, &header, "destructor");
        else if ((!strcmp(name, ".ctors") || !strcmp(name, ".dtors")) && header.sh_size > 16)
            finding(check, "has entries in %s, which run " START_REMEDY, name);
    }
}

/* The section that DT_INIT or DT_FINI must point to, the compiler's own. */
static uint64_t section_address(const struct modcheck *check, const char *wanted)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL)
        if (gelf_getshdr(section, &header) &&
            !strcmp(elf_file_section_name(check->file, &header), wanted))
            return header.sh_addr;
    return 0;
}

static void check_entries(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Dyn entry;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_DYNAMIC, &section, &header)) != NULL)
        for (int i = 0; gelf_getdyn(data, i, &entry); i++) {
            if (entry.d_tag == DT_INIT && entry.d_un.d_ptr != section_address(check, ".init"))
                finding(check, "has a constructor (-Wl,-init), which runs " START_REMEDY);
            if (entry.d_tag == DT_FINI && entry.d_un.d_ptr != section_address(check, ".fini"))
                finding(check, "has a destructor (-Wl,-fini), which runs " START_REMEDY);
        }
}

static void check_indirect(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Rela rela;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &header)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++) {
            if ((int)GELF_R_TYPE(rela.r_info) != INDIRECT)
                continue;
            finding(check, "chooses functions while it is loaded (ifunc), which runs code "
                           "in the linker; choose in open");
            return;
        }
}

static void check_constructors(const struct modcheck *check)
{
    check_lists(check);
    check_entries(check);
    check_indirect(check);
}

/* ---- what a module's file asks of the dynamic linker ---- */

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
        finding(check,
                "needs %s, and the host has %s: two versions of one library in a process; "
                "build it on the system of the host",
                name, sought.other);
    if (flavour(name))
        finding(check,
                "needs %s in addition to the host's %s: two builds of one library in a process; "
                "link to the host's",
                name, flavour(name));
    if (intruder(name))
        finding(check,
                "needs %s, %s, which concerns the whole process and is the host's to choose; "
                "build without it",
                name, intruder(name));
}

static void check_needed(const struct modcheck *check)
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

static void check_text(const struct modcheck *check)
{
    bool found = false;

    each_entry(check, look_text, &found);
    if (found)
        finding(check, "has relocations in its code, which is writable while it is loaded; "
                       "build all of it with -fPIC");
}

/* ---- the list of checks ---- */

static void check_stack(const struct modcheck *check)
{
    size_t count = 0;
    GElf_Phdr segment;
    bool told = false;

    if (elf_getphdrnum(check->file->elf, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        if (!gelf_getphdr(check->file->elf, (int)i, &segment))
            continue;
        if (segment.p_type == PT_GNU_STACK && !(segment.p_flags & PF_X))
            told = true;
        if (segment.p_type == PT_LOAD && segment.p_flags & PF_W && segment.p_flags & PF_X)
            finding(check, "has memory that is both writable and executable, so that a "
                           "mistake becomes a way in; build it with the linker's defaults");
    }
    if (!told)
        finding(check, "asks for an executable stack, which all threads of the host would get; "
                       "build without nested functions, mark assembler with .note.GNU-stack, or "
                       "link with -Wl,-z,noexecstack");
}

static void check_build_id(const struct modcheck *check)
{
    char id[129];

    if (!elf_file_build_id(check->file, id, sizeof id))
        finding(check, "has no build id, so the build that a host runs cannot be identified; "
                       "link with -Wl,--build-id=sha1");
}

void modcheck(const char *path, struct setting_problems *findings)
{
    static void (*const checks[])(const struct modcheck *) = {
        check_exports,
        check_copies,
        check_writable_sections,
        check_thread_local_sections,
        check_constructors,
        check_needed,
        check_text,
        check_stack,
        check_build_id,
    };
    struct elf_file file;
    struct modcheck check = {&file, path, findings};
    char why[512];

    if (elf_file_open(&file, path, why, sizeof why)) {
        finding(&check, "%s", why);
        return;
    }
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        checks[i](&check);
    elf_file_close(&file);
}
