/* The check: reads the two files, then every conversation that they name from the database. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

struct mark {
    char marker[LEDGER_MARKER];
    char uuid[LEDGER_UUID]; /* "": not acknowledged */
    int64_t conversation;
    size_t found;   /* number of times it is stored */
    bool misplaced; /* in another conversation or with another uuid than in the response */
};

struct book {
    struct mark *marks; /* sorted by marker */
    size_t count, room;
    struct ledger_report *report;
};

static int by_marker(const void *a, const void *b)
{
    return strcmp(((const struct mark *)a)->marker, ((const struct mark *)b)->marker);
}

static struct mark *find(const struct book *book, const char *marker)
{
    struct mark key;

    if (!book->count || strlen(marker) >= sizeof key.marker)
        return NULL;
    snprintf(key.marker, sizeof key.marker, "%s", marker);
    return bsearch(&key, book->marks, book->count, sizeof key, by_marker);
}

static int add(struct book *book, const char *marker, int64_t conversation)
{
    if (book->count == book->room) {
        size_t room = book->room ? book->room * 2 : 1024;
        struct mark *grown = realloc(book->marks, room * sizeof *grown);

        if (!grown)
            return -1;
        book->marks = grown;
        book->room = room;
    }
    struct mark *mark = &book->marks[book->count++];

    *mark = (struct mark){.conversation = conversation};
    snprintf(mark->marker, sizeof mark->marker, "%s", marker);
    return 0;
}

static FILE *open_part(const char *directory, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");

    if (!file)
        fprintf(stderr, "ledger: %s cannot be read\n", path);
    return file;
}

/* A last line that was cut off by a crash of the driver was not fsync'ed, so it does not count. */
static int read_intents(struct book *book, const char *directory)
{
    FILE *file = open_part(directory, "intent");
    char line[256], marker[LEDGER_MARKER];
    int64_t conversation;
    int failed = file ? 0 : -1;

    while (!failed && fgets(line, sizeof line, file)) {
        if (strchr(line, '\n') &&
            sscanf(line, "%63s %" SCNd64, marker, &conversation) == 2) // NOLINT
            failed = add(book, marker, conversation);
    }
    if (file)
        fclose(file);
    if (book->count)
        qsort(book->marks, book->count, sizeof *book->marks, by_marker);
    book->report->intended = book->count;
    return failed;
}

static int read_acknowledged(struct book *book, const char *directory)
{
    FILE *file = open_part(directory, "acknowledged");
    char line[256], marker[LEDGER_MARKER], uuid[LEDGER_UUID];
    long status;

    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n') ||
            sscanf(line, "%63s %ld %36s", marker, &status, uuid) != 3) // NOLINT
            continue;
        struct mark *mark = find(book, marker);

        if (!mark) {
            book->report->phantom++;
        } else if (status == 201) {
            memcpy(mark->uuid, uuid, sizeof uuid);
            book->report->acknowledged++;
        }
    }
    fclose(file);
    return 0;
}

static void check_entry(struct book *book, const PGresult *rows, int row, int64_t conversation)
{
    const char *entry = PQgetvalue(rows, row, 2);
    struct mark *mark = find(book, entry);

    if (strncmp(entry, LEDGER_PREFIX, strlen(LEDGER_PREFIX)) != 0)
        return;
    if (!mark) {
        book->report->phantom++;
        return;
    }
    mark->found++;
    if (mark->conversation != conversation ||
        (*mark->uuid && strcmp(mark->uuid, PQgetvalue(rows, row, 1)) != 0))
        mark->misplaced = true;
}

/* The order has no gap and no fork: every place from the first one on is taken once. */
static void check_order(struct book *book, const PGresult *rows)
{
    for (int row = 1; row < PQntuples(rows); row++) {
        long long before = strtoll(PQgetvalue(rows, row - 1, 0), NULL, 10);
        long long here = strtoll(PQgetvalue(rows, row, 0), NULL, 10);

        book->report->chain += here != before + 1;
    }
}

/* Checks the columns of the conversation: head, last entry, number of entries, unread counts. */
static int check_conversation(struct book *book, PGconn *db, const char *id, bool recount)
{
    static const char sql[] =
        "SELECT (c.head_uuid <> (SELECT uuid FROM chat_entry WHERE conversation_id = c.id "
        "ORDER BY seq LIMIT 1))::int + (c.last_entry_uuid <> (SELECT uuid FROM chat_entry "
        "WHERE conversation_id = c.id ORDER BY seq DESC LIMIT 1))::int, "
        "(c.entries <> count(e.uuid))::int + (count(e.uuid) <> count(DISTINCT e.uuid))::int, "
        "(c.unread1 <> count(e.uuid) FILTER (WHERE e.username = c.participant2))::int + "
        "(c.unread2 <> count(e.uuid) FILTER (WHERE e.username = c.participant1))::int "
        "FROM chat_conversation c JOIN chat_entry e ON e.conversation_id = c.id "
        "WHERE c.id = $1::bigint GROUP BY c.id";
    PGresult *row = PQexecParams(db, sql, 1, NULL, &id, NULL, NULL, 0);
    int failed = PQresultStatus(row) == PGRES_TUPLES_OK ? 0 : -1;

    if (failed)
        fprintf(stderr, "ledger: %s", PQerrorMessage(db));
    if (!failed && PQntuples(row) == 1) {
        book->report->chain += strtoul(PQgetvalue(row, 0, 0), NULL, 10);
        book->report->counters += strtoul(PQgetvalue(row, 0, 1), NULL, 10);
        book->report->counters += recount ? strtoul(PQgetvalue(row, 0, 2), NULL, 10) : 0;
    }
    PQclear(row);
    return failed;
}

static int check_entries(struct book *book, PGconn *db, int64_t conversation, bool recount)
{
    char id[32];
    const char *values[] = {id};

    snprintf(id, sizeof id, "%" PRId64, conversation);
    PGresult *rows = PQexecParams(db,
                                  "SELECT seq, uuid, chat_entry FROM chat_entry "
                                  "WHERE conversation_id = $1::bigint ORDER BY seq",
                                  1, NULL, values, NULL, NULL, 0);
    int failed = PQresultStatus(rows) == PGRES_TUPLES_OK ? 0 : -1;

    if (failed)
        fprintf(stderr, "ledger: %s", PQerrorMessage(db));
    for (int row = 0; !failed && row < PQntuples(rows); row++)
        check_entry(book, rows, row, conversation);
    if (!failed)
        check_order(book, rows);
    PQclear(rows);
    return failed ? failed : check_conversation(book, db, id, recount);
}

/* Checks each conversation that the ledger names, once. */
static int check_all(struct book *book, PGconn *db, bool recount)
{
    int64_t *done = calloc(book->count + 1, sizeof *done);
    size_t count = 0;
    int failed = done ? 0 : -1;

    for (size_t i = 0; !failed && i < book->count; i++) {
        size_t at = 0;

        while (at < count && done[at] != book->marks[i].conversation)
            at++;
        if (at < count)
            continue;
        done[count++] = book->marks[i].conversation;
        failed = check_entries(book, db, book->marks[i].conversation, recount);
    }
    free(done);
    return failed;
}

static void sum_up(struct book *book)
{
    for (size_t i = 0; i < book->count; i++) {
        const struct mark *mark = &book->marks[i];

        book->report->stored += mark->found > 0;
        book->report->unsure += mark->found && !*mark->uuid;
        book->report->repeated += mark->found > 1;
        book->report->lost += *mark->uuid && (!mark->found || mark->misplaced);
        book->report->phantom += !*mark->uuid && mark->misplaced;
    }
}

int ledger_check(const char *directory, PGconn *db, bool recount, struct ledger_report *report)
{
    struct book book = {.report = report};

    memset(report, 0, sizeof *report);
    int failed = read_intents(&book, directory) || read_acknowledged(&book, directory) ||
                 check_all(&book, db, recount);

    if (!failed)
        sum_up(&book);
    free(book.marks);
    return failed ? -1 : 0;
}

bool ledger_adds_up(const struct ledger_report *report)
{
    return !report->lost && !report->phantom && !report->repeated && !report->chain &&
           !report->counters;
}

void ledger_report_text(const struct ledger_report *report, char *out, size_t size)
{
    snprintf(out, size,
             "intended %zu, acknowledged %zu, stored %zu, unsure %zu; lost %zu, phantom %zu, "
             "repeated %zu, chain errors %zu, counter errors %zu",
             report->intended, report->acknowledged, report->stored, report->unsure, report->lost,
             report->phantom, report->repeated, report->chain, report->counters);
}
