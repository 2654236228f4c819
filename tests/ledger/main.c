/*
 * Command line of the ledger:
 *
 *   ledger load DIRECTORY PORT CONVERSATION AUTHOR1 AUTHOR2 WRITERS COUNT SECONDS
 *       posts to 127.0.0.1:PORT with the token in BUSBAR_TOKEN
 *   ledger check DIRECTORY CONNECTION [recount]
 *       prints the report; CONNECTION is a libpq connection string
 *
 * The exit status is 0 if the load reached its count, or if the ledger adds up.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

static int usage(void)
{
    fputs("usage: ledger load DIRECTORY PORT CONVERSATION AUTHOR1 AUTHOR2 WRITERS COUNT SECONDS\n"
          "       ledger check DIRECTORY CONNECTION [recount]\n",
          stderr);
    return 2;
}

static int load(char **argv)
{
    atomic_int port = (int)strtol(argv[1], NULL, 10);
    const char *token = getenv("BUSBAR_TOKEN");
    struct ledger_load task = {.ledger = ledger_open(argv[0]),
                               .address = "127.0.0.1",
                               .port = &port,
                               .token = token ? token : "",
                               .conversation = strtoll(argv[2], NULL, 10),
                               .authors = {argv[3], argv[4]},
                               .writers = (int)strtol(argv[5], NULL, 10),
                               .count = strtol(argv[6], NULL, 10),
                               .seconds = (int)strtol(argv[7], NULL, 10)};

    if (!task.ledger) {
        perror(argv[0]);
        return 1;
    }
    int failed = ledger_load(&task);

    printf("acknowledged %ld, refused or unanswered %ld\n", atomic_load(&task.acknowledged),
           atomic_load(&task.refused));
    ledger_close(task.ledger);
    return failed ? 1 : 0;
}

static int check(const char *directory, const char *connection, bool recount)
{
    PGconn *db = PQconnectdb(connection);
    struct ledger_report report;
    char line[512];
    int status = 1;

    if (PQstatus(db) != CONNECTION_OK) {
        fprintf(stderr, "ledger: %s", PQerrorMessage(db));
    } else if (!ledger_check(directory, db, recount, &report)) {
        ledger_report_text(&report, line, sizeof line);
        puts(line);
        status = ledger_adds_up(&report) ? 0 : 1;
    }
    PQfinish(db);
    return status;
}

int main(int argc, char **argv)
{
    int status = 2;

    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (argc == 10 && !strcmp(argv[1], "load"))
        status = load(argv + 2);
    else if ((argc == 4 || (argc == 5 && !strcmp(argv[4], "recount"))) && !strcmp(argv[1], "check"))
        status = check(argv[2], argv[3], argc == 5);
    else
        usage();
    curl_global_cleanup();
    return status;
}
