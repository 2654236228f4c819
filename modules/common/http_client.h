/*
 * HTTP requests to other servers, with libcurl's multi interface and an epoll. Requests use
 * HTTP/1.1, or HTTP/2 if a server offers it over TLS, without redirects, proxies, .netrc or
 * cookies. Certificates are verified, and the target guard decides where a socket may connect
 * (target.h). Connections are reused. If a reused connection breaks before the response, GET, HEAD,
 * OPTIONS, PUT and DELETE are sent once more on another connection; other methods are sent once
 * (RFC 9110, 9.2.2).
 *
 * A client, its requests and all their callbacks belong to one thread at a time. Each module that
 * uses this has its own copy compiled in.
 */
#ifndef COMMON_HTTP_CLIENT_H
#define COMMON_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "modules/common/target.h"

#define HTTP_HEAD_MAX 32768 /* bytes of all headers of a response together */

struct http_client;

/* The texts and rules are borrowed: they must live as long as the client. */
struct http_client_options {
    const struct target_rules *rules; /* NULL: all addresses are allowed */
    const char
        *authorities;   /* file of certificates (PEM), used instead of the system's; "": none */
    int64_t idle_s;     /* seconds for which an unused connection is kept */
    size_t connections; /* maximum number of idle connections */
    bool http2;         /* use HTTP/2 if a server offers it over TLS */
    /* Called after each wait, before a socket is used. If it returns false, the client ends all
     * requests in flight with HTTP_LATE, and closes all connections. NULL: not called. */
    bool (*goes_on)(const void *arg);
    const void *arg;
};

enum http_outcome {
    HTTP_ANSWERED,
    HTTP_REFUSED,     /* not sent: the address or port is not allowed */
    HTTP_UNREACHABLE, /* not sent: no connection, or no memory */
    HTTP_BROKEN,      /* sent, but without a complete and valid response */
    HTTP_LATE,        /* no response in time, or the caller abandoned the request */
    HTTP_OUTCOMES
};

struct http_request {
    /* The caller sets these and zeroes the rest. Pointers are borrowed until the request ends. */
    const char *method, *url;
    struct curl_slist *headers;
    const char *body;   /* the request's body, unless `file` is set; NULL: none */
    FILE *file;         /* sent as the body from its beginning; NULL: `body` is sent */
    int64_t length;     /* bytes of the body */
    int64_t timeout_ms; /* for the whole request */
    /* Called for each piece of the body if the status is 200. Returns 0, or -1 to end the request.
     * If `take` is NULL or the status is not 200, the body is stored in `bytes`. */
    int (*take)(void *arg, const char *bytes, size_t length);
    size_t body_max;   /* a response with a longer body is HTTP_BROKEN */
    size_t bytes_max;  /* how many bytes of a body are stored in `bytes`; 0: all */
    atomic_bool *left; /* any thread sets it to abandon the request; or NULL */
    /* Called before the request is sent; false ends the request unsent. NULL: always sent. */
    bool (*may_send)(struct http_request *request);
    /* Called when all headers of a response, also of a 1xx response, were received; or NULL. */
    void (*headed)(struct http_request *request);
    /* Called once when the request has ended; may start other requests. NULL: not called. */
    void (*done)(struct http_request *request);
    void *arg;

    /* The result. */
    bool ended;
    enum http_outcome outcome;
    const char *error; /* if not HTTP_ANSWERED: a constant that does not name the server */
    char detail[CURL_ERROR_SIZE]; /* the error in libcurl's words, for logs; "": none */
    bool servers_fault; /* if not HTTP_ANSWERED: the server or its network is the reason, not this
                         * machine, its name servers or the address guard */
    int status;         /* HTTP status of the response, complete or not; 0: no response */
    char *bytes;        /* the body and a NUL, which the caller frees; NULL: no body */
    size_t received;    /* length of `bytes` */
    int sendings;       /* how often libcurl began to send the request */
    bool head_ended;    /* the empty line after the last header was received */
    bool too_large;     /* headers or body are longer than their limit */

    /* Used by the client. */
    CURL *easy;
    LIST_ENTRY(http_request) link; /* in the list of requests in flight */
    struct target_socket socket;
    int64_t late_at_ms; /* when the client ends the request if libcurl has not ended it */
    size_t room, head_bytes, body_bytes;
};

/* Creates a client. Returns NULL if out of memory or descriptors. http_client_free() frees it. */
struct http_client *http_client_new(const struct http_client_options *options);

/* Ends all requests in flight with HTTP_LATE, and closes all connections. */
void http_client_end(struct http_client *client);

/* Like http_client_end(), and frees the client. NULL is allowed. */
void http_client_free(struct http_client *client);

/*
 * Creates request->easy, so that the caller can set further options (CURLOPT_AWS_SIGV4,
 * CURLOPT_SHARE, CURLOPT_FRESH_CONNECT) before http_client_start(). Optional. If request->easy is
 * set already, it is reused. Then its last request must have had the same method, and a response.
 * Returns 0, or -1 if out of memory.
 */
int http_request_prepare(struct http_client *client, struct http_request *request);

/*
 * Starts a request, which http_client_turn() sends. The request may end before this function
 * returns, for example if memory runs out.
 */
void http_client_start(struct http_client *client, struct http_request *request);

/* Starts a request and waits until it has ended; `done` is not needed. */
void http_client_perform(struct http_client *client, struct http_request *request);

/*
 * Waits up to wait_ms for sockets, timers or wake_fd, runs libcurl, and ends requests. wake_fd is
 * an eventfd, which this function drains, or -1.
 */
void http_client_turn(struct http_client *client, int wake_fd, int64_t wait_ms);

/* Frees request->easy of a request that has ended, and headers that curl_easy_header() returned. */
void http_request_close(struct http_request *request);

/* Returns milliseconds of the monotonic clock. */
int64_t http_clock_ms(void);

/* Returns whether the name of a header or method is in a list that ends with NULL. */
bool http_is_one_of(const char *name, const char *const *list);

#endif
