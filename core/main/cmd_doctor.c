/*
 * `busbar doctor`: checks a running installation. Most checks are statements whose rows are the
 * findings, with the columns state (notice, warning or error) and text. A module adds its own
 * checks with a command of the name "MODULE doctor", which prints a state and a text per line.
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
#include "core/store/migrate.h"

#define IS_STANDBY "SELECT FROM pg_stat_replication WHERE application_name !~ '^pg_'"

static const struct {
    const char *name, *sql;
} doctor_checks[] = {
    {"rights", "SELECT 'error', 'the role ' || current_user || ' cannot read and change '"
               " || string_agg(relname, ', ' ORDER BY relname) FROM pg_class"
               " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
               " AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')"
               " AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))"
               " HAVING count(*) > 0"},
    {"writes", "SELECT 'error', 'the server is a standby' WHERE pg_is_in_recovery()"
               " UNION ALL SELECT 'error', 'transactions are read-only by default'"
               " WHERE current_setting('default_transaction_read_only') = 'on'"
               " UNION ALL SELECT 'error', count(*) || ' commits wait for a synchronous standby'"
               " FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
               " AND clock_timestamp() - state_change > '3 s' HAVING count(*) > 0"},
    {"durability", "SELECT 'error', name || ' is off: a crash loses acknowledged writes'"
                   " FROM pg_settings WHERE name IN ('fsync', 'full_page_writes')"
                   " AND setting = 'off'"},
    {"replication",
     "SELECT 'notice', 'not visible: run GRANT pg_monitor TO ' || quote_ident(current_user)"
     " WHERE NOT pg_has_role('pg_monitor', 'USAGE')"
     " UNION ALL SELECT 'notice', 'no standby: if this server is lost, so are all writes since"
     " the last backup or archived WAL' WHERE NOT EXISTS (" IS_STANDBY ")"
     " AND current_setting('synchronous_standby_names') = ''"
     " UNION ALL SELECT 'error', 'synchronous_standby_names needs a standby, and none is connected'"
     " WHERE NOT EXISTS (" IS_STANDBY ") AND current_setting('synchronous_standby_names') <> ''"
     " UNION ALL SELECT 'warning', 'synchronous_standby_names is empty: a failover can lose"
     " acknowledged writes' WHERE EXISTS (" IS_STANDBY ")"
     " AND current_setting('synchronous_standby_names') = ''"
     " UNION ALL SELECT 'warning', 'standby ' || application_name || ' is behind by '"
     " || pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn))"
     " FROM pg_stat_replication WHERE NOT pg_is_in_recovery()"
     " AND (pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) > 67108864 OR replay_lag > '10 s')"
     " UNION ALL SELECT 'warning', 'replication slot ' || slot_name || ' is inactive and keeps '"
     " || pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) || ' of WAL'"
     " FROM pg_replication_slots WHERE NOT active AND NOT pg_is_in_recovery()"},
    {"archive",
     "SELECT 'notice', 'archive_mode is off: a restore can only go back to a full backup'"
     " WHERE current_setting('archive_mode') = 'off'"
     " UNION ALL SELECT 'error', 'archiving WAL has failed since ' || last_failed_time"
     " FROM pg_stat_archiver WHERE current_setting('archive_mode') <> 'off'"
     " AND last_failed_time > coalesce(last_archived_time, '-infinity')"
     " UNION ALL SELECT 'warning', 'no WAL was archived for a day' FROM pg_stat_archiver"
     " WHERE current_setting('archive_mode') <> 'off'"
     " AND now() - coalesce(last_archived_time, stats_reset) > '1 day'"},
    /* By time; a module that partitions by other keys checks them with its command. */
    {"partitions",
     "SELECT CASE WHEN until < now() THEN 'error' ELSE 'warning' END, name || ' has partitions only"
     " until ' || until FROM (SELECT p.partrelid::regclass::text AS name, max((regexp_match("
     "pg_get_expr(c.relpartbound, c.oid), 'TO \\(''([^'']+)''\\)'))[1]::timestamptz) AS until"
     " FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid"
     " AND a.attnum = p.partattrs[0] AND a.atttypid = 'timestamptz'::regtype"
     " JOIN pg_inherits i ON i.inhparent = p.partrelid JOIN pg_class c ON c.oid = i.inhrelid"
     " GROUP BY 1) p WHERE until < now() + interval '12 hours'"},
    {"vacuum", "SELECT 'warning', 'the oldest row version is ' || age(datfrozenxid)"
               " || ' transactions old: autovacuum does not keep up' FROM pg_database"
               " WHERE datname = current_database() AND age(datfrozenxid) > 1000000000"},
    {"sessions",
     "SELECT 'warning', count(*) || ' of ' || current_setting('max_connections')"
     " || ' connections are in use' FROM pg_stat_activity WHERE backend_type = 'client backend'"
     " HAVING count(*) > 0.9 * current_setting('max_connections')::integer"
     " UNION ALL SELECT 'warning', 'session ' || pid || ' of ' || usename"
     " || ' has been idle in a transaction since ' || xact_start FROM pg_stat_activity"
     " WHERE state LIKE 'idle in transaction%' AND now() - xact_start > '10 minutes'"
     " UNION ALL SELECT 'warning', 'prepared transaction ' || gid || ' is open since ' || prepared"
     " FROM pg_prepared_xacts WHERE now() - prepared > '10 minutes'"},
};

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

/* Ends the previous check, and begins one; NULL: none follows. */
static void doctor_begin(struct doctor *doctor, const char *check)
{
    if (doctor->check && !doctor->found)
        doctor_find(doctor, "ok", "%s", "");
    doctor->check = check;
    doctor->found = 0;
}

/*
 * Runs a command in a child process, because a module can only be opened once in a process. The
 * caller closes *out, the child's output, before it waits for the child. -1: it does not run.
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
    for (size_t i = 0; i < sizeof doctor_checks / sizeof doctor_checks[0]; i++) {
        doctor_begin(doctor, doctor_checks[i].name);
        PGresult *result = migrate_db_run(&db, doctor->check, doctor_checks[i].sql, NULL, 0);

        if (!result)
            doctor_find(doctor, "error", "%s", report.problem);
        for (int row = 0; row < PQntuples(result); row++)
            doctor_find(doctor, PQgetvalue(result, row, 0), "%s", PQgetvalue(result, row, 1));
        PQclear(result);
    }
    doctor_begin(doctor, "clock");
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
                doctor_find(doctor, "error", "%s.%s: less than %d %% of the disk of %s are free",
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
    json_array_foreach(json_object_get(json_object_get(host, "crashes"), "leftOut"), i, row)
    {
        doctor_find(doctor, "error", "module %s is disabled: %s",
                    json_string_value(json_object_get(row, "name")),
                    json_string_value(json_object_get(row, "why")));
    }
    json_array_foreach(json_object_get(host, "jobs"), i, row)
    {
        if (json_is_object(json_object_get(row, "skippedNow")))
            doctor_find(doctor, "warning", "job %s is skipped: its lock is held elsewhere",
                        json_string_value(json_object_get(row, "name")));
    }
    json_array_foreach(json_object_get(host, "loops"), i, row)
    {
        failed |= json_is_true(json_object_get(row, "redisFailed"));
        redis |= failed || json_is_integer(json_object_get(row, "redisMs"));
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
    doctor_check_database(&doctor, g);
    doctor_check_modules(&doctor, cli->conf, g);
    doctor_check_disk(&doctor, g);
    doctor_begin(&doctor, NULL);
    if (json && !json_dumpf(doctor.findings, stdout, JSON_INDENT(2)))
        putchar('\n');
    json_array_foreach(doctor.findings, i, finding)
    {
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
