/*
 * The target guard: where requests of the host may go, as to webhooks. Of a URL target_problem()
 * refuses what can be seen from it: its form, a literal address in any spelling, a port. At each
 * connect target_open_socket() refuses by the address that the socket is about to be connected to,
 * whatever name, table or answer of a name server it came from: the special ranges and the
 * machine's own addresses. The setting allow_networks opens networks for both; allow_ports opens
 * ports. Each module that uses this is built with a copy of its own.
 *
 * URLs are taken apart by curl's own parser alone, so that what was checked is what is called.
 *
 * The rules are built in `open` and only read afterwards, from any thread. A target_guard is one
 * thread's: it remembers the machine's addresses for a second.
 */
#ifndef COMMON_TARGET_H
#define COMMON_TARGET_H

#include <curl/curl.h>
#include <jansson.h>

#include "modules/common/network.h"

#define TARGET_URL_MAX 2048 /* characters */

struct target_rules {
    struct network *networks; /* allowed although special */
    size_t network_count;
    struct network *open; /* allowed, on every port */
    size_t open_count;
    int64_t *ports; /* allowed although not a port of web servers */
    size_t port_count;
};

/*
 * Reads the settings (NULL: empty): lists of networks, of ports, and of networks with all their
 * ports. 0; or -1 with the reason in `why`, and the rules are empty.
 */
int target_rules_read(struct target_rules *rules, const json_t *networks, const json_t *ports,
                      const json_t *open, char *why, size_t why_size);
void target_rules_free(struct target_rules *rules);

/* NULL: the URL may be called; else what it must be or not, to follow the field's name. */
const char *target_problem(const struct target_rules *rules, const char *url);

/*
 * Returns the URL with its path, query and fragment percent-encoded as browsers do it (WHATWG URL),
 * because servers refuse such bytes raw. Spaces around the URL are dropped. A URL that needs no
 * encoding stays as it is, and so does one that cannot be parsed: the result is what
 * target_problem() must judge. The caller frees it; NULL: no memory.
 */
char *target_encode(const char *url);

#define TARGET_OWN_MAX 64 /* addresses of the machine that are remembered */

struct target_guard {
    const struct target_rules *rules;
    struct in6_addr own[TARGET_OWN_MAX];
    size_t own_count;
    bool own_known;    /* false: they could not be read, nothing may be connected to */
    int64_t own_until; /* milliseconds of the monotonic clock */
};

/* Whether a socket may be connected to the address now. */
bool target_allowed(struct target_guard *guard, const struct sockaddr *address);

/* What CURLOPT_OPENSOCKETDATA points to, one for each transfer. */
struct target_socket {
    struct target_guard *guard;
    bool refused; /* an address was refused: the reason of CURLE_COULDNT_CONNECT */
};

/* CURLOPT_OPENSOCKETFUNCTION */
curl_socket_t target_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address);

/* ---- target_options.c ---- */

struct target_options {
    int64_t timeout_ms; /* for a whole request */
    int64_t idle_s;     /* that a connection is kept without use */
    bool http2;         /* where the server offers it over TLS */
};

/*
 * Sets what all requests have that go where the guard allows: http and https alone, no redirects,
 * proxies, .netrc or users in URLs, certificates verified. CURLE_OK, or what libcurl says.
 */
CURLcode target_set_options(CURL *easy, const struct target_options *options);

/*
 * Whether the system's authorities are in a file. libcurl keeps what it reads from one for the next
 * connections, and not what it reads from the directory that Debian has beside it: reading that
 * takes ten times as long as a handshake.
 */
bool target_authorities_in_a_file(void);

#endif
