/* The results that a connection still has to deliver: a ring buffer, in the order of sending. */
#include <stdlib.h>

#include "core/store/pg_pool.h"

struct pg_expect *pg_expect_at(struct pg_conn *conn, size_t i)
{
    return &conn->expects[(conn->expect_first + i) % conn->expect_room];
}

static int expect_grow(struct pg_conn *conn)
{
    size_t room = conn->expect_room ? conn->expect_room * 2 : 128;
    struct pg_expect *bigger = calloc(room, sizeof *bigger);

    if (!bigger)
        return -1;
    for (size_t i = 0; i < conn->expect_count; i++)
        bigger[i] = *pg_expect_at(conn, i);
    free(conn->expects);
    conn->expects = bigger;
    conn->expect_room = room;
    conn->expect_first = 0;
    return 0;
}

int pg_expect_add(struct pg_conn *conn, struct pg_expect what)
{
    if (conn->expect_count == conn->expect_room && expect_grow(conn))
        return -1;
    *pg_expect_at(conn, conn->expect_count) = what;
    conn->expect_count++;
    return 0;
}

void pg_expect_next(struct pg_conn *conn)
{
    conn->expect_first = (conn->expect_first + 1) % conn->expect_room;
    conn->expect_count--;
}
