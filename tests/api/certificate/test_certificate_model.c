/*
 * Compares certificates with a model in another language: certificate_model.py makes a random
 * platform and computes independently which energy must be certified and carried.
 *
 * BUSBAR_TEST_SEED is the seed (1). The first test has BUSBAR_TEST_MODEL_STEPS steps (8, in a full
 * run 24). The second simulates a year of BUSBAR_TEST_DEVICES devices (8), with a group for each 25
 * of them; `./test month` has 1,000 in 40.
 */
#include "certificates.h"
#include "talk.h"

enum { MODEL_MS = 5400 * 1000, WEEKS = 52, PARTS = 4 };

/* Makes the functions read the time from the model, which stores it in a row. */
static void take_time_from_model(void)
{
    sql_run(db, "CREATE TABLE certificate_model_time AS SELECT now() AS at");
    sql_run(db, "CREATE FUNCTION certificate_model_now() RETURNS timestamptz LANGUAGE sql STABLE"
                " AS 'SELECT at FROM certificate_model_time'");
    sql_run(db, "DO $$ DECLARE p record; BEGIN FOR p IN SELECT oid FROM pg_proc WHERE proname LIKE"
                " 'certificate\\_%' AND prosrc LIKE '%clock_timestamp()%' LOOP EXECUTE replace("
                "pg_get_functiondef(p.oid), 'clock_timestamp()', 'certificate_model_now()');"
                " END LOOP; END $$");
}

static int setting(const char *name, int fallback)
{
    const char *given = getenv(name);

    return given ? atoi(given) : fallback;
}

struct model {
    const char *mode, *name;
    struct person *by;
    int devices, groups, steps, last;
    const char *days;
};

static char *json_words(const char *const *words)
{
    char *list = text("[\"%s\"", *words);

    while (*++words)
        list = text("%s, \"%s\"", list, *words);
    return text("%s]", list);
}

/* Runs the program and prints its output. `steps`: the last step of this run; `last`: the last step
 * of all runs. */
static void run_model(const struct model *model)
{
    const char *issue[] = {harness_program(false), "-c", host->conf, "certificate", "issue", NULL};
    const char *sql[] = {
        postgres_program("psql"), "-d",
        text("host=%s dbname=%s user=%s", the_postgres->sockets, model->name, PQuser(db)), NULL};
    const char *environment[] = {text("MODEL_URL=http://127.0.0.1:%d", host->port),
                                 text("MODEL_TOKEN=%s", model->by->token),
                                 text("MODEL_ADMIN=%s", admin->token),
                                 text("MODEL_ISSUE=%s", json_words(issue)),
                                 text("MODEL_SQL=%s", json_words(sql)),
                                 text("MODEL_SEED=%d", setting("BUSBAR_TEST_SEED", 1)),
                                 text("MODEL_DEVICES=%d", model->devices),
                                 text("MODEL_GROUPS=%d", model->groups),
                                 text("MODEL_DAYS=%s", model->days),
                                 text("MODEL_LAST=%d", model->last),
                                 NULL};
    const char *log = harness_path(text("%s.said", model->name));
    const char *argv[] = {"python3",
                          TEST_SOURCES "/api/certificate/certificate_model.py",
                          model->mode,
                          harness_path(text("%s.state", model->name)),
                          text("%d", model->steps),
                          NULL};
    int status = 0;
    pid_t pid =
        process_start(&(struct process_spec){.argv = argv, .environment = environment, .log = log});
    bool ended = process_wait(pid, MODEL_MS, &status);

    ck_assert_msg(ended && status == 0, "%s", file_text(log));
    fprintf(stderr, "integration: %s: %s", model->name, file_text(log));
}

static void set_up_year(void)
{
    certificates_open("certificate_year_stage");
}

TEST(certificates_entries_and_carried_energy_equal_a_model)
{
    int steps = setting("BUSBAR_TEST_MODEL_STEPS", repetitions(8, 24));
    struct model model = {.mode = "exact",
                          .name = "certificate_model",
                          .by = certificate_person("model.exact"),
                          .devices = 12,
                          .groups = 4,
                          .days = "1",
                          .steps = steps,
                          .last = steps};
    PGconn *holder = database_connect(the_postgres, "certificate_model");

    /* otherwise the host's own job would also issue, at times that the model does not know */
    sql_run(holder, "SELECT pg_advisory_lock(hashtextextended('certificate.issue', 0))");
    take_time_from_model();
    run_model(&model);
    PQfinish(holder);
    certificates_expect_sums(db);
}

OPENED_SUITE(certificate_model, certificates_open, 7200)

/* The host is killed while it issues the readings of the previous steps. */
TEST(certificates_of_a_simulated_year_with_kills_equal_the_model)
{
    host = meter_host("certificate_year", NULL); /* in this test's process */
    admin = admin_of(host);
    PQfinish(db);
    db = database_connect(the_postgres, "certificate_year");
    take_time_from_model();
    int devices = setting("BUSBAR_TEST_DEVICES", 8), weeks = devices > 8 ? 1 : 2; /* of a step */
    struct model model = {.mode = "kills",
                          .name = "certificate_year",
                          .by = certificate_person("model.year"),
                          .devices = devices,
                          .groups = devices > 75 ? devices / 25 : 3,
                          .days = weeks > 1 ? "7" : "3.5",
                          .last = WEEKS / weeks};

    for (int part = 1; part <= PARTS; part++) {
        model.steps = part * model.last / PARTS;
        run_model(&model);
        host_kill(host);
        ck_assert(host_run(host));
    }
    certificates_expect_sums(db);
}

STAGE_SUITE(certificate_year, set_up_year, 7200, .runs = SUITE_RUNS_FULL)
