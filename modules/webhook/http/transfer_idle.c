/*
 * Idle connections. libcurl closes old and dead connections only when a request looks for a
 * connection, at most once a second. So while there are idle ones, a dummy request is made now and
 * then: its socket is refused, but before that libcurl has cleaned up its connections.
 */
#include "modules/webhook/http/transfer_sockets.h"

#define LEAST_MS 1100 /* libcurl checks once a second */
#define PARTS 8       /* checks per maximum idle time */

static curl_socket_t refuse(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)arg;
    (void)purpose;
    (void)address;
    return CURL_SOCKET_BAD;
}

static CURL *make_look(const struct transfers *all)
{
    CURL *look = curl_easy_init();

    if (look && !curl_easy_setopt(look, CURLOPT_NOSIGNAL, 1L) &&
        !curl_easy_setopt(look, CURLOPT_PROXY, "") &&
        !curl_easy_setopt(look, CURLOPT_URL, "http://127.0.0.1:9/") &&
        !curl_easy_setopt(look, CURLOPT_OPENSOCKETFUNCTION, refuse) &&
        !curl_easy_setopt(look, CURLOPT_MAXAGE_CONN, (long)(all->settings.idle_ms / 1000)))
        return look;
    curl_easy_cleanup(look);
    return NULL;
}

void idle_look(struct transfers *all)
{
    int64_t now = sockets_clock_ms(), between = all->settings.idle_ms / PARTS;

    if (!all->open_count || now < all->look_at || all->looking || !all->multi || all->broken)
        return;
    sockets_shut_surplus(all);
    all->look_at = now + (between < LEAST_MS ? LEAST_MS : between);
    if (!all->look)
        all->look = make_look(all);
    all->looking = all->look && curl_multi_add_handle(all->multi, all->look) == CURLM_OK;
}

void idle_soon(struct transfers *all)
{
    int64_t soon = sockets_clock_ms() + LEAST_MS;

    if (all->look_at > soon)
        all->look_at = soon;
}

bool idle_looked(struct transfers *all, CURL *easy)
{
    if (easy != all->look)
        return false;
    idle_stop(all);
    return true;
}

void idle_stop(struct transfers *all)
{
    if (all->looking)
        curl_multi_remove_handle(all->multi, all->look);
    all->looking = false;
}

int64_t idle_wait(const struct transfers *all, int64_t wait_ms)
{
    int64_t left = all->look_at - sockets_clock_ms();

    if (!all->open_count || all->looking)
        return wait_ms;
    left = left > 0 ? left : 0;
    return wait_ms < 0 || left < wait_ms ? left : wait_ms;
}
