/* Files of modules: files that are not modules, other versions, and a file that is replaced while
 * its code is in use. */
#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/module/module_load.h"
#include "fixture.h"
#include "suite.h"

#define PROBE TEST_MODULES "/probe.so"

static char directory[sizeof "/tmp/busbar-module-XXXXXX"], file[64];

static void setup(void)
{
    snprintf(directory, sizeof directory, "/tmp/busbar-module-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/a.so", directory);
    arena_setup();
}

static void teardown(void)
{
    unlink(file);
    rmdir(directory);
    setting_problems_free(&problems);
    arena_teardown();
}

/* Fails the test unless loading the file is refused with this message after its name. */
static void assert_refused(const char *path, const char *reason)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, path, "busbar.yaml:1: modules", &problems), -1);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], "busbar.yaml:1: modules: "));
    ck_assert_msg(strstr(problems.lines[0], reason), "%s: no \"%s\"", problems.lines[0], reason);
}

/* Copies the probe and replaces the head of its descriptor (size, major, minor). */
static void patch(size_t size, unsigned major, unsigned minor)
{
    struct {
        size_t size;
        unsigned major, minor;
    } old = {sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR}, new = {size, major, minor};
    size_t length;
    char *bytes = file_read_bytes(PROBE, &length);
    char *at = memmem(bytes, length, &old, sizeof old);

    ck_assert_ptr_nonnull(at);
    memcpy(at, &new, sizeof new);
    file_write_bytes(file, bytes, length);
    free(bytes);
}

TEST_EACH(files_that_are_not_modules_are_refused, 4)
{
    static const struct {
        const char *bytes, *reason;
    } cases[] = {
        {"", "is empty"},
        {"hello", "is not an ELF file"},
        {"\177ELF", "is not an ELF file"},
        {"/* long enough for a head of an ELF file, but none: it is text, and quite some of it */",
         "is not an ELF file"},
    };

    file_write_bytes(file, cases[_i].bytes, strlen(cases[_i].bytes));
    assert_refused(file, cases[_i].reason);
}

#define OF_HEAD(member) offsetof(ElfW(Ehdr), member)

/* Changes of one byte in the ELF header of the probe. */
TEST_EACH(files_with_another_elf_header_are_refused, 7)
{
    static const struct {
        size_t at;
        char byte;
        const char *reason;
    } cases[] = {
        {EI_CLASS, ELFCLASSNONE, "was built for another machine"},
        {EI_DATA, ELFDATANONE, "was built for another machine"},
        {OF_HEAD(e_machine), EM_ARM, "was built for another machine"},
        {OF_HEAD(e_type), ET_EXEC, "is not a shared object"},
        {OF_HEAD(e_phentsize), 1, "is damaged: its program headers are invalid"},
        {OF_HEAD(e_phnum), 0, "is damaged: its program headers are invalid"},
        {OF_HEAD(e_phnum), 65, "is damaged: its program headers are invalid"},
    };
    size_t length;
    char *bytes = file_read_bytes(PROBE, &length);

    bytes[cases[_i].at] = cases[_i].byte;
    file_write_bytes(file, bytes, length);
    free(bytes);
    assert_refused(file, cases[_i].reason);
}

/* The third file is the C library, which exists on every system. */
TEST(missing_files_and_other_libraries_are_refused)
{
    Dl_info library;

    ck_assert_int_ne(dladdr((void *)(uintptr_t)&getppid, &library), 0);
    const char *const files[][2] = {
        {file, "No such file or directory; check that it is installed"},
        {directory, "is not a regular file"},
        {library.dli_fname, "is not a busbar module: it exports no busbar_module"},
        {"/proc/self/exe", "/proc/self/exe: "},
    };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_refused(files[i][0], files[i][1]);
        setting_problems_free(&problems);
    }
}

TEST(truncated_module_files_are_refused)
{
    size_t length;
    char *bytes = file_read_bytes(PROBE, &length), why[256];

    for (size_t cut = 1; cut < length; cut += cut < 4096 ? 61 : 997) {
        file_write_bytes(file, bytes, cut);
        ck_assert_int_eq(module_file_check(file, why, sizeof why), -1);
    }
    file_write_bytes(file, bytes, length - 1);
    ck_assert_int_eq(module_file_check(file, why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "is truncated"));
    file_write_bytes(file, bytes, length);
    ck_assert_int_eq(module_file_check(file, why, sizeof why), 0);
    free(bytes);
}

#define TEXT_OF(number) #number
#define HOST_ABI(minor) "1." TEXT_OF(minor)

TEST_EACH(modules_of_other_abi_versions_are_refused, 3)
{
    static const struct {
        size_t size;
        unsigned major, minor;
        const char *reason;
    } heads[] = {
        {sizeof(struct bb_module), BB_ABI_MAJOR + 1, 7,
         "was built for ABI 2.7, this host has " HOST_ABI(BB_ABI_MINOR) ": build the module"},
        {sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR + 1,
         ", this host has " HOST_ABI(BB_ABI_MINOR) ": upgrade the host"},
        {sizeof(struct bb_module) + 8, BB_ABI_MAJOR, BB_ABI_MINOR, "declares a descriptor of"},
    };

    patch(heads[_i].size, heads[_i].major, heads[_i].minor);
    assert_refused(file, heads[_i].reason);
}

/* Replaces the file by the probe plus `more` bytes, by rename. */
static void upgrade(size_t more)
{
    char newer[64];
    size_t length;
    char *bytes = file_read_bytes(PROBE, &length);

    snprintf(newer, sizeof newer, "%s/b.so", directory);
    memset(bytes + length, 'x', more);
    file_write_bytes(newer, bytes, length + more);
    free(bytes);
    ck_assert_int_eq(rename(newer, file), 0);
}

static const struct bb_module *load_file(void)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, file, "x", &problems), 0);
    ck_assert_uint_ge(strlen(module.build_id), 16);
    return module.descriptor;
}

/* Code is never unloaded, so a file that comes back must not be loaded again. */
TEST(an_equal_module_file_uses_the_loaded_code)
{
    upgrade(2);
    const struct bb_module *first = load_file();

    upgrade(3);
    const struct bb_module *second = load_file();

    ck_assert(second->open != first->open);
    for (int i = 0; i < 10; i++) {
        upgrade(2);
        ck_assert(load_file()->open == first->open);
        upgrade(3);
        ck_assert(load_file()->open == second->open);
    }
}

/* cp on a loaded file truncates it, writes other bytes, and may be interrupted. */
TEST(a_loaded_module_file_may_be_overwritten)
{
    patch(sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR);
    const struct bb_module *descriptor = load_file();
    size_t length;
    char *bytes = file_read_bytes(PROBE, &length);

    file_write_bytes(file, bytes, length / 2);
    assert_refused(file, "is truncated");
    ck_assert_int_eq(truncate(file, 0), 0);
    ck_assert_str_eq(descriptor->version, "1.0.0");
    memset(bytes + length, 'x', 5);
    file_write_bytes(file, bytes, length + 5);
    ck_assert(load_file()->open != descriptor->open);
    ck_assert_int_eq(truncate(file, 0), 0);
    ck_assert_str_eq(descriptor->version, "1.0.0");
    free(bytes);
}

/* Loads the file while no file may grow, so that the host cannot copy it. */
static void load_in_place(void)
{
    struct rlimit before, none;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    load_file();
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* The test only appends to the file: overwriting the code in use would crash this process. */
TEST(a_module_file_loaded_in_place_must_not_be_overwritten)
{
    upgrade(6);
    load_in_place();
    FILE *out = fopen(file, "a");

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(fputc('x', out), 'x');
    ck_assert_int_eq(fclose(out), 0);
    assert_refused(file, "was overwritten while its code is in use: replace the file by a rename");
    upgrade(6);
    load_file();
}

SUITE(module_files, .before_each = setup, .after_each = teardown)
