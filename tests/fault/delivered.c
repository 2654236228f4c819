#include "fault/delivered.h"

enum { IN_FLIGHT = 64, RECORDING = 512 };

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the ids that the path received, sorted. */
static const char **ids_of(const struct receiver *receiver, const char *path, size_t *count)
{
    const json_t *list = receiver_ids(receiver, path);
    const char **ids = kept(calloc(json_array_size(list) + 1, sizeof *ids));

    *count = json_array_size(list);
    for (size_t i = 0; i < *count; i++)
        ids[i] = json_string_value(json_array_get(json_array_get(list, i), 0));
    qsort(ids, *count, sizeof *ids, by_text);
    return ids;
}

void delivered_all(struct scene *scene, const struct receiver *receiver, const char *path,
                   size_t kills)
{
    PGconn *db = database_connect(scene->pg, scene->database);

    sql_soon(db, "SELECT (count(*) = 0)::int FROM webhook_deliveries WHERE state = 'queued'");
    PGresult *stored = PQexec(db, "SELECT event_id, state FROM webhook_deliveries");
    size_t came, distinct = 0, lost = 0, rows = (size_t)PQntuples(stored);
    const char **ids = ids_of(receiver, path, &came);

    for (size_t i = 0; i < came; i++)
        distinct += !i || strcmp(ids[i], ids[i - 1]) != 0;
    for (size_t i = 0; i < rows; i++) {
        const char *id = PQgetvalue(stored, (int)i, 0);

        lost += bsearch(&id, ids, came, sizeof *ids, by_text) == NULL;
    }
    fprintf(stderr, "%s: %zu deliveries, %zu requests, %zu twice, %zu lost\n", scene->database,
            rows, came, came - distinct, lost);
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(distinct, rows);
    ck_assert_uint_le(came - distinct, kills * (IN_FLIGHT + RECORDING));
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM chat_entry") - 1, (int64_t)rows);
    PQclear(stored);
    PQfinish(db);
}
