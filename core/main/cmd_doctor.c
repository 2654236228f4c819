/*
 * `busbar doctor`: checks a running installation. Most checks are statements in doctor.sql. A
 * module adds its own checks with a command of the name "MODULE doctor", which prints a state and a
 * text per line.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lib/json.h"
#include "core/lib/text.h"
#include "core/main/cli.h"
#include "core/main/doctor.h"
#include "core/store/migrate.h"
#include "core/store/pg.h"

#define HEAD "-- check " /* before the name of a check in doctor.sql */

struct doctor {
    json_t *findings;
    const char *check; /* name of the check in progress */
    size_t found;      /* findings of this check */
    bool failed;       /* a warning or an error was found */
};

BB_PRINTF(3, 4)
static void doctor_find(struct doctor *doctor, const char *state, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    doctor->found++;
    doctor->failed |= *state == 'w' || *state == 'e';
    json_array_append_new(doctor->findings, json_pack("{ss ss so}", "check", doctor->check, "state",
                                                      state, "text", json_out_text(text)));
}

/* Ends the previous check, and begins the check with this name (NULL: begins none). */
static void doctor_begin(struct doctor *doctor, const char *check)
{
    if (doctor->check && !doctor->found)
        doctor_find(doctor, "ok", "%s", "");
    doctor->check = check;
    doctor->found = 0;
}

/*
 * Runs a command in a child process, because a module can only be opened once in a process. The
 * caller closes *out, the child's output, before waiting for the child. Returns the pid, or -1.
 */
static pid_t doctor_run(int (*run)(const struct cli *), const struct cli *cli, FILE **out)
{
    int ends[2];
    pid_t child = -1;

    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    if ((child = fork()) == 0) {
        bool joined = dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0;
        int status = joined ? run(cli) : CLI_FAILED;

        fflush(stdout);
        _exit(status);
    }
    close(ends[1]);
    if (child < 0 || !(*out = fdopen(ends[0], "r")))
        close(ends[0]);
    return child;
}

/* Runs the command "MODULE doctor" of each module that has it. */
static void doctor_check_modules(struct doctor *doctor, const char *conf,
                                 const struct generation *g)
{
    for (size_t i = 0; i < g->module_count; i++) {
        const char *module = g->modules[i].descriptor->name;
        char name[64], word[] = "doctor", command[80], *argv[] = {name, word}, line[4096];
        FILE *out = NULL;
        int status = 0;
        bool has_command = false;

        snprintf(name, sizeof name, "%s", module);
        snprintf(command, sizeof command, "%s doctor", module);
        MODULE_EACH (bb_command, row, g->modules[i].descriptor->commands)
            has_command = has_command || !strcmp(row->name, command);
        if (!has_command)
            continue;
        doctor_begin(doctor, module);
        pid_t child =
            doctor_run(cmd_module, &(struct cli){.conf = conf, .argc = 2, .argv = argv}, &out);

        while (out && fgets(line, sizeof line, out)) {
            size_t skipped = !strncmp(line, "notice ", 7)    ? 7
                             : !strncmp(line, "warning ", 8) ? 8
                             : !strncmp(line, "error ", 6)   ? 6
                                                             : 0;

            line[strcspn(line, "\n")] = '\0';
            if (skipped)
                line[skipped - 1] = '\0';
            doctor_find(doctor, skipped ? line : "error", "%s", line + skipped);
        }
        if (out)
            fclose(out);
        if (child < 0 || waitpid(child, &status, 0) < 0 || status || !out)
            doctor_find(doctor, "error", "the checks of the module failed");
    }
}

static void doctor_check_database(struct doctor *doctor, const struct generation *g)
{
    struct migrate_report report = {0};
    struct migrate_db db = {.report = &report};

    doctor_begin(doctor, "database");
    if (migrate_db_open(&db, g->settings, false)) {
        doctor_find(doctor, "error", "%s", report.problem);
        migrate_db_close(&db);
        return;
    }
    char *text = strdup(doctor_sql), *next = text ? strstr(text, HEAD) : NULL;

    while (next) {
        char *name = next + strlen(HEAD), *sql = strchr(name, '\n');

        *sql++ = '\0';
        next = strstr(sql, HEAD);
        if (next)
            *next = '\0';
        doctor_begin(doctor, name);
        PGresult *result = migrate_db_run(&db, name, sql, NULL, 0);

        if (!result)
            doctor_find(doctor, "error", "%s", report.problem);
        for (int row = 0; row < PQntuples(result); row++)
            doctor_find(doctor, PQgetvalue(result, row, 0), "%s", PQgetvalue(result, row, 1));
        PQclear(result);
    }
    doctor_begin(doctor, "clock");
    free(text);
    int64_t before = clock_wall_ms();
    PGresult *clock = migrate_db_run(
        &db, "clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", NULL, 0);
    int64_t after = clock_wall_ms();
    int64_t theirs = clock ? strtoll(PQgetvalue(clock, 0, 0), NULL, 10) : after;
    int64_t ahead = before > theirs ? before - theirs : after < theirs ? after - theirs : 0;

    PQclear(clock);
    if (!clock)
        doctor_find(doctor, "error", "%s", report.problem);
    else if (llabs(ahead) >= SHARED_CLOCK_WARN_MS)
        doctor_find(doctor, llabs(ahead) > SHARED_CLOCK_MOST_MS ? "error" : "warning",
                    "this machine's clock is %.1f s %s PostgreSQL's", (double)llabs(ahead) / 1000,
                    ahead < 0 ? "behind" : "ahead of");
    migrate_db_close(&db);

    doctor_begin(doctor, "schema");
    if (migrate_run(g, false, NULL, NULL, &report) != MIGRATE_DONE)
        doctor_find(doctor, "error", "%s", report.problem);
}

/* Checks the file systems of all directories in the modules' settings. */
static void doctor_check_disk(struct doctor *doctor, const struct generation *g)
{
    enum { LEAST_PERCENT = 5 };
    bool any = false;

    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_module *module = g->modules[i].descriptor;
        const struct setting_section *section = settings_section(g->settings, module->name);

        for (size_t row = 0; section && row < module->settings.count; row++) {
            const char *name = MODULE_ROWS(bb_field, module->settings)[row].name;
            const struct setting_value *value = section_value(section, name, 't');
            const char *path = value ? json_string_value(value->json) : NULL;
            struct stat file;
            struct statvfs disk;

            if (!path || *path != '/' || stat(path, &file) || !S_ISDIR(file.st_mode) ||
                statvfs(path, &disk))
                continue;
            if (!any)
                doctor_begin(doctor, "disk");
            any = true;
            if (disk.f_bavail * 100 < disk.f_blocks * LEAST_PERCENT)
                doctor_find(doctor, "error", "%s.%s: less than %d %% of the disk of %s is free",
                            module->name, name, LEAST_PERCENT, path);
            if (access(path, W_OK))
                doctor_find(doctor, "warning", "%s.%s: this user cannot write to %s", module->name,
                            name, path);
        }
    }
}

static void doctor_check_host(struct doctor *doctor, const char *conf)
{
    char word[] = "--json", *argv[] = {word};
    FILE *out = NULL;
    pid_t child = doctor_run(
        cmd_ask, &(struct cli){.conf = conf, .name = "status", .argc = 1, .argv = argv}, &out);
    json_t *host = out ? json_loadf(out, 0, NULL) : NULL, *row;
    bool redis = false, failed = false;
    const char *paused = json_string_value(json_object_get(host, "paused"));
    size_t i;

    if (out)
        fclose(out);
    if (child > 0)
        waitpid(child, NULL, 0);
    doctor_begin(doctor, "host");
    if (!host)
        doctor_find(doctor, "warning", "no host with these settings runs on this machine");
    else if (!json_is_true(json_object_get(host, "ready")))
        doctor_find(doctor, "error", "not ready: see `busbar status`");
    if (paused)
        doctor_find(doctor, "warning", "paused: %s", paused);
    json_array_foreach (json_object_get(json_object_get(host, "crashes"), "leftOut"), i, row)
        doctor_find(doctor, "error", "module %s is disabled: %s",
                    json_string_value(json_object_get(row, "name")),
                    json_string_value(json_object_get(row, "why")));
    json_array_foreach (json_object_get(host, "jobs"), i, row) {
        if (json_is_object(json_object_get(row, "skippedNow")))
            doctor_find(doctor, "warning", "job %s is skipped: its lock is held elsewhere",
                        json_string_value(json_object_get(row, "name")));
    }
    json_array_foreach (json_object_get(host, "loops"), i, row) {
        failed |= json_is_true(json_object_get(row, "redisFailed"));
        redis |= failed || json_is_integer(json_object_get(row, "redisMs"));
    }
    json_array_foreach (
        json_object_get(json_array_get(json_object_get(host, "loops"), 0), "replicas"), i, row) {
        const char *state = json_string_value(json_object_get(row, "state"));

        if (!i)
            doctor_begin(doctor, "replicas");
        if (state && strcmp(state, pg_replica_states[0]) != 0)
            doctor_find(doctor, "warning", "replica %zu %s: its reads run on the primary", i + 1,
                        state);
    }
    if (redis)
        doctor_begin(doctor, "redis");
    if (failed)
        doctor_find(doctor, "error", "Redis does not respond or refuses writes");
    json_decref(host);
}

int cmd_doctor(const struct cli *cli)
{
    bool json = cli->argc > 0; /* --json */
    struct generation *g = NULL;
    struct doctor doctor = {0};
    json_t *finding;
    size_t i;

    doctor.findings = json_array();
    if (!doctor.findings || !(g = cli_generation(cli, false))) {
        json_decref(doctor.findings);
        return CLI_FAILED;
    }
    doctor_check_host(&doctor, cli->conf);
    if (*g->host->database.url)
        doctor_check_database(&doctor, g);
    doctor_check_modules(&doctor, cli->conf, g);
    doctor_check_disk(&doctor, g);
    doctor_begin(&doctor, NULL);
    if (json && !json_dumpf(doctor.findings, stdout, JSON_INDENT(2)))
        putchar('\n');
    json_array_foreach (doctor.findings, i, finding) {
        const char *text = json_string_value(json_object_get(finding, "text"));

        if (!json && text)
            printf(*text ? "%-8s %-12s %s\n" : "%-8s %s%s\n",
                   json_string_value(json_object_get(finding, "state")),
                   json_string_value(json_object_get(finding, "check")), text);
    }
    json_decref(doctor.findings);
    generation_destroy(g);
    return doctor.failed ? CLI_FAILED : CLI_DONE;
}
