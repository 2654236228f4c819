/* Each stage of a connection has a timeout; the sweep ends the connections that exceed it. */
#include <sys/socket.h>

#include "core/server/http.h"

enum {
    BYTES_PER_MS = 16, /* a client that reads or sends at less than 16 KiB/s is cut */
    DRAIN_MS = 1000    /* during shutdown: time for a request that is just arriving on an idle
                        * connection */
};

void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes)
{
    const struct http_settings *settings = &connection->http->settings;
    int64_t now = connection->http->loop->now_ms;

    connection->http->progressed = true;
    connection->http->writing -= connection->stage == STAGE_WRITE;
    connection->http->writing += stage == STAGE_WRITE;
    connection->stage = stage;
    connection->looked = connection->ended = false;
    connection->drops = NULL;
    switch (stage) {
    case STAGE_IDLE:
        connection->limit_ms = now + settings->idle_ms + settings->header_ms;
        break;
    case STAGE_HEADER:
        connection->limit_ms = now + settings->header_ms;
        break;
    case STAGE_BODY:
        connection->limit_ms = now + settings->body_ms + (int64_t)bytes / BYTES_PER_MS;
        break;
    case STAGE_WRITE:
        connection->limit_ms = now + settings->write_ms + (int64_t)bytes / BYTES_PER_MS;
        break;
    default:
        connection->limit_ms = 0; /* the request has a deadline */
    }
}

/* Shuts down the socket; libmicrohttpd notices and cleans up. */
void connection_cut(struct connection *connection)
{
    if (connection->cut)
        return;
    connection->cut = true;
    shutdown(connection->fd, SHUT_RDWR);
}

/*
 * Whether the client sent its last bytes and closed at the same time: both cause a single edge,
 * after which libmicrohttpd reads the bytes and waits for more. So the timeout sweep checks idle
 * connections once, and connections with an incomplete body always.
 */
static bool has_left(struct connection *connection)
{
    char next;

    if (connection->stage != STAGE_BODY && (connection->stage != STAGE_IDLE || connection->looked))
        return false;
    if (connection->stage == STAGE_BODY && !reader_lacks(&connection->reader))
        return false;
    connection->looked = true;
    if (recv(connection->fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT))
        return false;
    if (connection->stage != STAGE_BODY || connection->ended)
        return true;
    connection->ended = true; /* libmicrohttpd reads once more, and the body is refused */
    return shutdown(connection->fd, SHUT_RD) != 0;
}

/* Whether the client must be informed that its request arrives too slowly. */
static bool is_awaited(const struct connection *connection)
{
    if (connection->stage == STAGE_HEADER)
        return connection->reader.began;
    return connection->stage == STAGE_BODY && reader_in_body(&connection->reader);
}

/*
 * The time for a head or a body is over. Shutting down the read side makes libmicrohttpd read once
 * more, and the reader then reports that the request is refused; the answer can still be sent.
 */
static void refuse_late(struct connection *connection)
{
    connection->reader.late = true;
    connection_stage(connection, STAGE_WRITE, 0);
    shutdown(connection->fd, SHUT_RD);
}

void connections_sweep(struct http *http)
{
    int64_t now = http->loop->now_ms;

    for (struct connection *at = http->connections; at; at = at->next) {
        bool over = (at->limit_ms && at->limit_ms <= now) || (at->stop_ms && at->stop_ms <= now);

        if (http->draining && at->stage <= STAGE_HEADER && at->limit_ms > now + DRAIN_MS)
            at->limit_ms = now + DRAIN_MS;
        if (over && !at->cut && is_awaited(at))
            refuse_late(at);
        else if (over || (!at->cut && has_left(at)))
            connection_cut(at);
        else if (at->drops && at->drops_ms <= now)
            connection_stop_body(at, at->drops, at->drops_status);
    }
}
