/* Crash reports of child processes: the log line, the report's file, and the supervisor's note. */
#include "core/lib/crash.h"

#include <regex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/lib/fiber.h"
#include "core/lib/supervised.h"
#include "core/lib/thread.h"
#include "fixture.h"
#include "suite.h"

enum { DEPTH = 60, REPORTS = 100, FIBERS = 32, FRAME_SIZE = 1 << 20 };

static char directory[64];
static const struct activity busy = {"other", "handler", "page", "GET", "/x", "r1"};

static void set_up(void)
{
    arena_setup();
    strcpy(directory, "/tmp/busbar-crash-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void tear_down(void)
{
    ck_assert_int_eq(system(arena_format(arena, "rm -r %s", directory)), 0);
    arena_teardown();
}

static const char *path_of(const char *name)
{
    return arena_format(arena, "%s/%s", directory, name);
}

static __attribute__((noinline)) void write_it(void)
{
    *(volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
}

static __attribute__((noinline)) void call_it(void)
{
    void (*volatile nowhere)(void) = NULL;

    nowhere();
}

static void kill_it(void)
{
    kill(getpid(), SIGBUS);
}

static void exit_it(void)
{
    exit(3);
}

static void end_it(void)
{
    crash_end(pthread_self(), "took 5 s");
}

static void park(void *arg)
{
    (void)arg;
    fiber_park();
}

/* Writes a megabyte below its frame first, like a function of a module whose compiler does not
 * probe the stack. */
__attribute__((noinline, no_sanitize_address)) static void write_far(void *arg)
{
    volatile char *here = (volatile char *)__builtin_frame_address(0);

    (void)arg;
    here[-FRAME_SIZE] = 'x';
}

/* Overflows a stack that lies above many others. */
static void overflow_it(void)
{
    struct fiber *parked[FIBERS], *none;

    for (int i = 0; i < FIBERS; i++)
        fiber_start(park, NULL, &parked[i]);
    fiber_resume(parked[0]); /* the next fiber gets this stack */
    fiber_start(write_far, NULL, &none);
}

static __attribute__((noinline)) void deeper(int depth, void (*end)(void))
{
    if (depth)
        deeper(depth - 1, end);
    else
        end();
    __asm__ volatile(""); /* prevents a tail call */
}

#define HEX "0x[0-9a-f]+"
#define FRAME(name) name "\\+" HEX " \\(probe\\)"
#define BUSY " module=probe ran=handler what=\"page, GET /x\" request=r1 stack="

static const struct death {
    void (*end)(void);
    int status;       /* of waitpid() */
    const char *line; /* the fields of the log line, as a pattern */
    const char *note; /* how, module, file */
} deaths[] = {
    {write_it, SIGSEGV,
     " signal=SIGSEGV address=" HEX BUSY "\"" FRAME("write_it") "( < " FRAME("deeper") "){11}\"",
     "SIGSEGV probe hello"},
    {call_it, SIGSEGV, " signal=SIGSEGV address=0x0" BUSY "\"" FRAME("call_it") " < .*\"",
     "SIGSEGV probe hello"},
    {overflow_it, SIGSEGV,
     " signal=SIGSEGV address=" HEX " guard=\"the stack of a fiber overflowed\"" BUSY
     "\"" FRAME("write_far") " < .*\"",
     "SIGSEGV probe hello"},
    {abort, SIGABRT, " signal=SIGABRT" BUSY "\".* < " FRAME("deeper") " < .*\"",
     "SIGABRT probe hello"},
    {kill_it, SIGBUS, " signal=SIGBUS" BUSY "\".* < " FRAME("kill_it") " < .*\"", "SIGBUS  "},
    {exit_it, 3 << 8, " exit=\"exit\\(\\)\"" BUSY "\".* < " FRAME("exit_it") " < .*\"",
     "exit() probe hello"},
    {end_it, SIGABRT,
     " signal=SIGABRT reason=\"took 5 s\"" BUSY "\".* < " FRAME("end_it") " < .*\"",
     "took 5 s probe hello"},
};

/* In a child process: ends it, with `shared` as the file of its supervisor. */
static void die(void (*end)(void), int shared)
{
    setenv(SUPERVISED_VARIABLE, arena_format(arena, "%d", shared), 1);
    supervised_begin();
    prctl(PR_SET_DUMPABLE, 0);
    freopen(path_of("log"), "w", stderr);
    crash_install();
    mapped_files_module(directory, "probe", "/lib/hello.so");
    crash_directory(path_of("reports"));
    activity_enter(busy);
    deeper(DEPTH, end);
}

/* Fails the test unless the text has the pattern. */
static void expect(const char *text, const char *pattern)
{
    regex_t compiled;

    ck_assert_int_eq(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(!regexec(&compiled, text, 0, NULL, 0), "not %s:\n%s", pattern, text);
    regfree(&compiled);
}

TEST_EACH(a_crash_is_reported, COUNT(deaths))
{
    static struct supervised_file shared;
    const struct death *death = &deaths[_i];
    const struct crash_note *note = &shared.worker.note;
    int file = memfd_create("supervisor", 0), status;
    size_t length;

    ck_assert_int_eq(ftruncate(file, sizeof shared), 0);
    pid_t child = fork();

    if (!child)
        die(death->end, file);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, death->status);
    ck_assert_int_eq(pread(file, &shared, sizeof shared, 0), sizeof shared);
    ck_assert_str_eq(arena_format(arena, "%s %s %s", note->how, note->module, note->file),
                     death->note);
    char *line = file_read_bytes(path_of("log"), &length);

    expect(line, arena_format(arena,
                              "^ts=[^ ]+ level=error msg=\"crashed\"%s report=%s/crash-20..-..-..T"
                              "..-..-..\\....Z-%d\\.txt\n$",
                              death->line, path_of("reports"), child));
    free(line);
    char *report = file_read_bytes(note->report, &length);

    /* at most 48 frames; some cases have less than 10 */
    expect(report,
           arena_format(arena,
                        "^busbar: [0-9.]+\ntime: 20[-0-9]+T[0-9:.]+Z\nprocess: %d, thread "
                        "%d called: busbar\n(signal|exit): .*\nmodule: probe\nran: handler\n"
                        "what: page, GET /x\nrequest: r1\nstack: .*\n\nbacktrace:\n   0  .*"
                        "\n +(47|[0-9])  " HEX "  [^ ]+ \\([^ ]+\\)  /.*/.*\\+" HEX "\n\n"
                        "build ids:\n  probe  [0-9a-f]{40}  /lib/hello.so  at " HEX "\n"
                        "  .*/libc.so.6  at " HEX "\n",
                        child, child));
    free(report);
}

static atomic_bool over;

static void *rest(void *arg)
{
    (void)arg;
    activity_enter(busy);
    while (!atomic_load(&over))
        usleep(1000);
    return NULL;
}

TEST(a_snapshot_shows_what_another_thread_does)
{
    struct crash_snapshot seen = {.module = ""};
    pthread_t thread;

    crash_exits(); /* this process ends normally */
    ck_assert(!crash_snapshot(pthread_self(), &seen));
    crash_install();
    ck_assert_int_eq(pthread_create(&thread, NULL, rest, NULL), 0);
    while (!crash_snapshot(thread, &seen) ||
           !*seen.kind) /* until the thread runs and has noted it */
        ;
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    ck_assert_str_eq(seen.module, "other");
    ck_assert_str_eq(seen.kind, "handler");
    ck_assert_str_eq(seen.what, "page, GET /x");
    ck_assert_str_eq(seen.request, "r1");
    expect(seen.stack, "(^| < )rest\\+" HEX " \\(unit\\) < ");
}

static const char *report_path(int number)
{
    return path_of(arena_format(arena, "crash-2%03d.txt", number));
}

TEST(the_newest_reports_are_kept)
{
    crash_exits();
    crash_install();
    for (int i = 0; i < REPORTS + 2; i++)
        file_write_bytes(report_path(i), "", 0);
    file_write_bytes(path_of("crash-1000.txt"), "", 0);
    file_write_bytes(path_of("crash-2000.log"), "", 0);
    ck_assert_int_eq(crash_directory(directory), 0);
    for (int i = 0; i < REPORTS + 2; i++)
        ck_assert_int_eq(access(report_path(i), F_OK), i < 2 ? -1 : 0);
    ck_assert(!access(path_of("crash-1000.txt"), F_OK) && !access(path_of("crash-2000.log"), F_OK));
    ck_assert_int_eq(crash_directory(NULL), 0);
    ck_assert_int_eq(crash_directory(path_of("no/where")), -1);
}

SUITE(crash, .before_each = set_up, .after_each = tear_down)
