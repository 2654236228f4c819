/* `busbar bulk import`: bulk uploads from a shell, with and without a terminal or a host. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>

#include "bulk.h"

enum { END_MS = 30000, WORDS = 16, SEEN = 65536 };
#define HEAD "name,amount\n"

/* ---- without a terminal ---- */

struct said {
    int status;
    const char *out, *err;
};

static int runs;

/* Returns the words after `busbar -c FILE bulk import`, ending with NULL. */
static const char **command_of(const struct host *of, const char *const *words)
{
    const char **argv = kept(calloc(WORDS, sizeof *argv));
    const char *const begin[] = {harness_program(of->plain), "-c", of->conf, "bulk", "import"};
    size_t count = sizeof begin / sizeof begin[0];

    memcpy(argv, begin, sizeof begin);
    for (; *words && count + 1 < WORDS; words++)
        argv[count++] = *words;
    return argv;
}

static struct said import_by(const struct host *of, const char *in, const char *const *words)
{
    char *base = harness_path(text("import-%d", ++runs));
    const char *script = text("exec \"$0\" \"$@\" <'%s' >'%s.out' 2>'%s.err'", in, base, base);
    const char *argv[WORDS + 4] = {"sh", "-c", script};

    memcpy(argv + 3, command_of(of, words), WORDS * sizeof *argv);
    int status = process_run(&(struct process_spec){
        .argv = argv, .environment = of->environment, .log = text("%s.log", base)});

    return (struct said){status, file_text(text("%s.out", base)), file_text(text("%s.err", base))};
}
#define IMPORT(...) import_by(host, "/dev/null", (const char *const[]){__VA_ARGS__, NULL})

static char *file_of(const char *name, const char *csv)
{
    char *path = harness_path(name);

    file_write(path, csv);
    return path;
}

static const char *home(void)
{
    return text("--organization=%lld", (long long)m->organization);
}

static void ck_said(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text);
}

static void ck_ends(struct said said, int status)
{
    ck_assert_msg(said.status == status, "%d: %s", said.status, said.err);
}

static void expect_things(const char *pattern, int64_t count)
{
    sql_is(db, count, "SELECT count(*) FROM heap_thing WHERE name LIKE '%s'", pattern);
}

static int64_t jobs_of(const char *file)
{
    return sql_number(db, text("SELECT count(*) FROM bulk_job WHERE file = '%s'", file));
}

TEST(a_successful_import_prints_nothing_on_standard_output)
{
    const char *file = file_of("good.csv", HEAD "ga,1\ngb,2\ngc,3\n");
    struct said said = IMPORT(file, home(), "--type", "Things");

    ck_ends(said, 0);
    ck_assert_str_eq(said.out, "");
    ck_said(said.err, "good.csv: 3 rows, all pass the check\nbulk upload ");
    ck_said(said.err, " has finished: 3 rows were stored, 0 failed\n");
    ck_assert_ptr_null(strpbrk(said.err, "\r\x1b\x07"));
    expect_things("g_", 3);
    sql_is(db, m->organization, "SELECT organisation FROM bulk_job WHERE file = 'good.csv'");
    ask(admin, 200, "[{'fileName':'good.csv'}]", "GET " BULK "?limit=1");
    ck_assert_ptr_null(strstr(ask(m, 200, NULL, "GET " BULK)->body, "good.csv"));
}

TEST(failed_rows_are_printed_and_can_be_imported_after_correction)
{
    const char *file = file_of("bad.csv", "name;amount;colour\nba;1;red\nbb;-1;\nba;2;\nbd;6,5;\n");
    struct said said = IMPORT("--type", "Things", file, home(), "--yes");

    ck_ends(said, 1);
    ck_assert_str_eq(said.out, "\xef\xbb\xbfname;amount;colour;errors\r\n"
                               "bb;-1;;amount: must be a number above 0\r\n"
                               "ba;2;;name: is taken\r\n");
    ck_said(said.err, "busbar: colour: no column of this type has that name; it is ignored\n"
                      "bad.csv: 4 rows, 2 of them fail the check\n");
    ck_said(said.err, " has finished: 2 rows were stored, 2 failed\n");
    file = file_of("again.csv", "\xef\xbb\xbfname;amount;errors\r\nbb;1;\"x\"\r\nbe;2;\r\n");
    said = import_by(host, file, (const char *const[]){"-", home(), "--type=Things", NULL});
    ck_ends(said, 0);
    ck_said(said.err, "standard-input.csv: 2 rows, all pass the check\n");
    expect_things("b_", 4);
}

TEST(a_dry_run_checks_the_rows_and_stores_nothing)
{
    const char *file = file_of("dry.csv", HEAD "da,1\ndb,x\n");
    struct said said = IMPORT(file, home(), "--type", "Things", "--dry-run");

    ck_ends(said, 1);
    ck_assert_str_eq(said.out, "\xef\xbb\xbfname,amount,errors\r\n"
                               "db,x,amount: must be a number above 0\r\n");
    ck_assert_str_eq(said.err, "dry.csv: 2 rows, 1 of them fail the check\n");
    said = IMPORT(file_of("dry.csv", HEAD "da,1\n"), home(), "--type", "Things", "--dry-run");
    ck_ends(said, 0);
    ck_assert_str_eq(said.out, "");
    expect_things("d_", 0);
    ck_assert_int_eq(jobs_of("dry.csv"), 0);
    bulk_no_orphans();
}

static void refuses(const char *file, const char *type, const char *organization, int status,
                    const char *because)
{
    struct said said = IMPORT(file, "--type", type, "--organization", organization);

    ck_assert_msg(said.status == status, "%s: %d: %s", because, said.status, said.err);
    ck_said(said.err, because);
    ck_assert_str_eq(said.out, "");
}

TEST(wrong_options_and_files_that_are_not_csv_are_refused_with_the_reason)
{
    const char *good = file_of("fine.csv", HEAD "fa,1\n");
    const char *id = text("%lld", (long long)m->organization);
    struct said said = IMPORT("--type", "Things");

    ck_ends(said, 2);
    ck_said(said.err, "--file: is required");
    said = IMPORT(good, good, home());
    ck_ends(said, 2);
    ck_said(said.err, "is given twice");
    ck_said(IMPORT("--help").out, "bulk import FILE [options]\n");
    refuses(good, "Stuff", id, 2, "--type: unknown type Stuff; known types: Things");
    refuses(good, "Things", "999999", 2, "--organization: no organization has this id");
    refuses(good, "Things", "x", 2, "--organization: must be a whole number");
    refuses(harness_path("none.csv"), "Things", id, 1, "none.csv: No such file");
    refuses("/", "Things", id, 1, "/: Is a directory");
    refuses(file_of("fine.txt", HEAD "fa,1\n"), "Things", id, 1, "must be a .csv file");
    refuses(file_of("book.csv", "PK\x03\x04\x14"), "Things", id, 1, "The file is a workbook");
    refuses(file_of("void.csv", ""), "Things", id, 1, "The file is empty");
    refuses(file_of("head.csv", HEAD), "Things", id, 1, "a header line and no rows");
    refuses(file_of("twice.csv", "name,title\na,b\n"), "Things", id, 1, "names the column");
    sql_is(db, 0,
           "SELECT count(*) FROM bulk_job WHERE file IN ('fine.csv',"
           " 'fine.txt', 'book.csv', 'void.csv', 'head.csv',"
           " 'twice.csv')");
}

TEST(a_file_over_the_size_limit_is_refused)
{
    const char *path = harness_path("large.csv");

    ck_assert_int_eq(truncate(file_of("large.csv", HEAD "la,1\n"), 51 * 1048576), 0);
    refuses(path, "Things", text("%lld", (long long)m->organization), 1, "larger than 50 MiB");
    unlink(path);
}

/* ---- on a terminal ---- */

struct screen {
    pid_t pid;
    int fd;
    char *out; /* file with standard output */
    char seen[SEEN];
    size_t length;
};

static _Noreturn void be_on_terminal(const char **argv, char **environment, const char *out)
{
    int fd = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600) : 1;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL); /* background jobs of a shell ignore it */
    if (fd < 0 || dup2(fd, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL))
        _exit(126);
    execvpe(argv[0], (char *const *)(uintptr_t)argv, environment);
    _exit(127);
}

/* Standard input and errors are a terminal of 80 columns; standard output is the terminal or a
 * file. */
static struct screen *screen_of(const char *const *words, bool whole)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct screen *screen = kept(calloc(1, sizeof *screen));
    const char **argv = command_of(host, words);
    char **environment = process_environment(host->environment);

    screen->out = whole ? NULL : harness_path(text("screen-%d.out", ++runs));
    screen->pid = forkpty(&screen->fd, NULL, NULL, &size);
    if (!screen->pid)
        be_on_terminal(argv, environment, screen->out);
    free(environment);
    ck_assert_int_gt(screen->pid, 0);
    return screen;
}
#define SCREEN(...) screen_of((const char *const[]){__VA_ARGS__, NULL}, false)

/* Returns false at the end, or if nothing comes in time. */
static bool see_more(struct screen *screen)
{
    struct pollfd ready = {.fd = screen->fd, .events = POLLIN};

    if (poll(&ready, 1, END_MS * PATIENCE) <= 0 || screen->length + 1 >= SEEN)
        return false;
    ssize_t got = read(screen->fd, screen->seen + screen->length, SEEN - 1 - screen->length);

    screen->length += got > 0 ? (size_t)got : 0;
    return got > 0;
}

static void await_text(struct screen *screen, const char *part)
{
    while (!strstr(screen->seen, part) && see_more(screen))
        ;
    ck_said(screen->seen, part);
}

static void type_text(const struct screen *screen, const char *keys)
{
    ck_assert_int_eq(write(screen->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Reads all output and returns the exit status. */
static int end_of(struct screen *screen)
{
    int status;

    while (see_more(screen))
        ;
    ck_assert(process_wait(screen->pid, END_MS * PATIENCE, &status));
    close(screen->fd);
    ck_assert_msg(WIFEXITED(status), "the command was ended by a signal: %s", screen->seen);
    return WEXITSTATUS(status);
}

static const char *many_of(const char *name, const char *prefix, int count)
{
    return file_of(name, bulk_csv(prefix, count, "1"));
}

TEST(a_terminal_gets_a_progress_bar_and_standard_output_the_failed_rows)
{
    const char *file = file_of("bar.csv", HEAD "xa,1\nxb,-1\n");
    struct screen *screen = SCREEN(file, home(), "--type", "Things", "--yes");

    ck_assert_int_eq(end_of(screen), 1);
    ck_said(screen->seen, "bar.csv: 2 rows, 1 of them fail the check");
    ck_said(screen->seen,
            "\r[........................................]   0 %  0 of 2 rows, 0 failed");
    ck_said(screen->seen, "has finished: 1 rows were stored, 1 failed");
    ck_assert_str_eq(file_text(screen->out), "\xef\xbb\xbfname,amount,errors\r\n"
                                             "xb,-1,amount: must be a number above 0\r\n");
}

TEST(control_sequences_of_a_file_do_not_reach_the_terminal)
{
    const char *file = file_of("tame.csv", HEAD "wa\x1b[2J\xc2\x9bx\xc3\xa4\x7f,-1\n");
    struct screen *screen =
        screen_of((const char *const[]){file, home(), "--type", "Things", "--yes", NULL}, true);

    ck_assert_int_eq(end_of(screen), 1);
    ck_said(screen->seen, "name,amount,errors\r\nwa?[2J?x\xc3\xa4?,-1,");
    ck_assert_ptr_null(strchr(screen->seen, '\x1b'));
}

TEST(the_command_asks_before_it_omits_failed_rows)
{
    const char *file = file_of("ask.csv", HEAD "ya,1\nyb,-1\n");
    struct screen *screen = SCREEN(file, home(), "--type", "Things");

    await_text(screen, "Store the others? [y/N] ");
    type_text(screen, "n\n");
    ck_assert_int_eq(end_of(screen), 1);
    ck_said(file_text(screen->out), "yb,-1,");
    ck_assert_int_eq(jobs_of("ask.csv"), 0);
    screen = SCREEN(file, home(), "--type", "Things");
    await_text(screen, "Store the others? [y/N] ");
    type_text(screen, "\x03");
    ck_assert_int_eq(end_of(screen), 130);
    ck_said(screen->seen, "interrupted: nothing was stored");
    ck_assert_int_eq(jobs_of("ask.csv"), 0);
    screen = SCREEN(file, home(), "--type", "Things");
    await_text(screen, "Store the others? [y/N] ");
    type_text(screen, "y\n");
    ck_assert_int_eq(end_of(screen), 1);
    expect_things("y_", 1);
}

/* Rows may be typed slowly, and the command asks no question because it has read its input. */
TEST(rows_typed_on_a_terminal_are_stored_without_a_question)
{
    struct screen *screen = SCREEN("-", home(), "--type", "Things");

    await_text(screen, "reading");
    type_text(screen, HEAD "ta,1\n");
    usleep(300000); /* the command waits for input up to 100 ms at a time */
    type_text(screen, "tb,-1\n\x04");
    ck_assert_int_eq(end_of(screen), 1);
    ck_said(screen->seen, "standard-input.csv: 2 rows, 1 of them fail the check");
    expect_things("t_", 1);
    screen = SCREEN(harness_path("none.csv"), home(), "--type", "Things");
    ck_assert_int_eq(end_of(screen), 1);
    ck_said(screen->seen, "reading\r       \r");
}

/* The user interrupts the command before the file has ended. */
TEST(an_interrupt_while_the_file_is_read_leaves_nothing)
{
    int64_t before = sql_number(db, "SELECT count(*) FROM bulk_job WHERE status <> 'finished'");
    struct screen *screen = SCREEN("-", home(), "--type", "Things");

    await_text(screen, "reading");
    type_text(screen, HEAD "ia,1\n");
    type_text(screen, "\x03");
    ck_assert_int_eq(end_of(screen), 130);
    ck_assert_str_eq(file_text(screen->out), "");
    sql_is(db, before, "SELECT count(*) FROM bulk_job WHERE status <> 'finished'");
}

static char *state_of(const char *file)
{
    return sql_text(db, text("SELECT status FROM bulk_job WHERE file = '%s'", file), 0, NULL);
}

static bool is_confirmed(const char *file)
{
    const char *state = state_of(file);

    return state && !strcmp(state, "confirmed");
}

/* The interrupt comes between the parts of the file. */
TEST(an_interrupt_while_the_rows_are_checked_leaves_nothing)
{
    PGconn *holder = bulk_hold("ACCESS EXCLUSIVE");
    struct screen *screen = SCREEN(many_of("early.csv", "early", 3000), home(), "--type", "Things");

    await_text(screen, "checking");
    sql_soon(db, SQL_LOCK_WAITS);
    type_text(screen, "\x03");
    await_text(screen, "^C");
    bulk_release(holder);
    ck_assert_int_eq(end_of(screen), 130);
    ck_said(screen->seen, "Interrupted: nothing was stored");
    ck_assert_str_eq(file_text(screen->out), "");
    ck_assert_int_eq(jobs_of("early.csv"), 0);
    bulk_no_orphans();
}

/* Stored rows stay, the rest is canceled, and all reports agree. */
TEST(an_interrupt_cancels_the_rows_not_yet_stored)
{
    enum { COUNT = 20000 };
    PGconn *holder = bulk_hold("SHARE");
    struct screen *screen = SCREEN(many_of("cut.csv", "cut", COUNT), home(), "--type", "Things");
    static char file[] = "cut.csv";

    WAIT_UNTIL(is_confirmed(file), END_MS);
    await_text(screen, "0 of 20000 rows");
    sql_soon(db, SQL_LOCK_WAITS); /* a batch has begun */
    type_text(screen, "\x03");
    sql_soon(db, SQL_LOCK_WAITS " AND query LIKE 'UPDATE bulk_job j SET status = ''cancelled''%'");
    bulk_release(holder);
    ck_assert_int_eq(end_of(screen), 130);
    ck_assert_str_eq(state_of(file), "cancelled");
    int64_t stored = sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'cut%'");

    ck_assert_int_lt(stored, COUNT);
    ck_said(screen->seen, text("cancelled: %lld rows were stored, 0 failed, %lld were cancelled",
                               (long long)stored, (long long)(COUNT - stored)));
    sql_is(db, stored, "SELECT succeeded FROM bulk_job WHERE file = 'cut.csv'");
    const char *rest = file_text(screen->out);

    ck_assert(!strncmp(rest, "\xef\xbb\xbfname,amount,errors\r\n", 23));
    ck_said(rest, text("\r\ncut%d,1,not stored: the bulk upload was cancelled\r\n", COUNT));
    ck_assert_ptr_null(stored ? strstr(rest, "cut1,") : NULL);
}

TEST(hosts_finish_the_job_of_a_killed_command)
{
    PGconn *holder = bulk_hold("SHARE");
    struct screen *screen = SCREEN(many_of("kill.csv", "kill", 3000), home(), "--type", "Things");
    static char file[] = "kill.csv";
    int status;

    WAIT_UNTIL(is_confirmed(file), END_MS);
    ck_assert_int_eq(kill(screen->pid, SIGKILL), 0);
    ck_assert(process_wait(screen->pid, END_MS * PATIENCE, &status));
    close(screen->fd);
    bulk_release(holder);
    WAIT_UNTIL(!strcmp(state_of(file), "finished"), END_MS);
    expect_things("kill%", 3000);
}

/* ---- without a host ---- */

#define READS "externalId,type,startDate,endDate,value,unit\n"

/* Makes a database that no host uses, for Devices and Reads. */
TEST(the_command_stores_the_rows_itself_without_a_host)
{
    struct host_spec spec = bulk_spec("bulk_import_alone", false);
    struct host *alone = host_prepare(&spec);
    PGconn *its = database_connect(the_postgres, spec.name);

    ck_assert_int_eq(host_command(alone, NULL, (const char *const[]){"migrate", NULL}), 0);
    ck_assert_int_eq(
        host_command(alone, (const char *const[]){"BUSBAR_PASSWORD=correct horse", NULL},
                     (const char *const[]){"user", "add", "op@alone.example", "--role",
                                           "OrganizationAdmin", "--organization", "Alone", NULL}),
        0);
    const char *id =
        sql_text(its, "SELECT id::text FROM auth_organisation WHERE name = 'Alone'", 0, NULL);
    struct said said = import_by(
        alone, "/dev/null",
        (const char *const[]){file_of("plants.csv", "externalId,commissioningDate,capacity\n"
                                                    "lone-1,2024-01-01,10\nlone-2,2024-02-30,10\n"),
                              "--organization", id, NULL});

    ck_ends(said, 1);
    ck_said(said.out, "lone-2,2024-02-30,10,\"commissioningDate: ");
    said = import_by(alone, "/dev/null",
                     (const char *const[]){
                         file_of("reads.csv", READS "lone-1,History,2025-01-01,2025-01-02,9,kWh\n"),
                         "--organization", id, "--type", "Reads", NULL});
    ck_ends(said, 0);
    sql_is(its, 1, "SELECT count(*) FROM reading");
}

OPENED_SUITE(bulk_import, bulk_open, 120)
