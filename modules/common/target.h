/*
 * The target guard: decides where requests of the host may go, for example to webhooks.
 * target_problem() checks the text of a URL: its form, its port, and a literal address in any
 * spelling. At each connect, target_open_socket() checks the address to which the socket is about
 * to connect, and refuses special networks and the machine's own addresses. In both functions, the
 * settings allow_networks and allow_ports permit further networks and ports. Each module that uses
 * this has its own copy compiled in.
 *
 * Only curl's own parser splits URLs, so that the URL that is checked is the URL that is called.
 *
 * The rules do not change after the module was opened, so any thread may use them. A target_guard
 * belongs to one thread: it caches the machine's addresses for a second.
 */
#ifndef COMMON_TARGET_H
#define COMMON_TARGET_H

#include <busbar/busbar.h>
#include <busbar/network.h>
#include <curl/curl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define TARGET_URL_MAX 2048 /* characters */

struct target_rules {
    struct bb_network *networks; /* the setting allow_networks */
    size_t network_count;
    struct bb_network *open; /* the setting open_networks: allowed on every port */
    size_t open_count;
    const json_t *ports; /* borrowed: the setting allow_ports */
};

// clang-format off

/* Rows for a module's table of settings. In the help texts, `who` names the senders of requests. */
#define TARGET_SETTINGS(settings, who)                                                             \
    {.name = "allow_networks", .type = BB_LIST, .max = 256, .fallback = "[]",                      \
     .bind = BB_BIND(settings, allow_networks), .fields = BB_TABLE(target_network_item),           \
     .help = "Private or special networks that " who " may reach; an entry may name several, "     \
             "separated by commas.", .example = "[\"10.20.0.0/16\"]"},                             \
    {.name = "allow_ports", .type = BB_LIST, .max = 256, .fallback = "[]",                         \
     .bind = BB_BIND(settings, allow_ports), .fields = BB_TABLE(target_port_item),                 \
     .help = "Ports that " who " may reach in addition to 80, 443, and ports from 1024 on except " \
             "ports of well-known services such as databases."},                                   \
    {.name = "open_networks", .type = BB_LIST, .max = 256, .fallback = "[]",                       \
     .bind = BB_BIND(settings, open_networks), .fields = BB_TABLE(target_network_item),            \
     .help = "Networks that " who " may reach on every port; they do not have to be in "           \
             "allow_networks."}
extern const struct bb_field target_network_item[1], target_port_item[1];

// clang-format on

/*
 * Reads the settings allow_networks, allow_ports and open_networks (NULL: empty). `ports` must
 * outlive the rules. Returns 0, or -1 with the reason in `why` and empty rules.
 */
int target_rules_read(struct target_rules *rules, const json_t *networks, const json_t *ports,
                      const json_t *open, char *why, size_t why_size);
void target_rules_free(struct target_rules *rules);

/*
 * Returns NULL if the URL may be called. Otherwise returns a text to append to the name of the
 * field, such as "must be …".
 */
const char *target_problem(const struct target_rules *rules, const char *url);

/*
 * Returns the URL with its path, query and fragment percent-encoded as browsers do it (WHATWG URL),
 * because servers refuse other bytes. Spaces around the URL are dropped. A URL that needs no
 * encoding, or that cannot be parsed, is returned unchanged, so check the result with
 * target_problem(). The caller frees it; NULL: out of memory.
 */
char *target_encode(const char *url);

#define TARGET_OWN_MAX 64 /* addresses of the machine that are cached */

struct target_guard {
    const struct target_rules *rules;
    struct in6_addr own[TARGET_OWN_MAX];
    size_t own_count;
    bool own_known;     /* `own` is complete; if it is not, every address counts as own */
    time_t own_until_s; /* when `own` is read again, on the monotonic clock */
};

/* Returns whether a socket may be connected to the address now. */
bool target_allowed(struct target_guard *guard, const struct sockaddr *address);

/* The value of CURLOPT_OPENSOCKETDATA. Each transfer has its own. */
struct target_socket {
    struct target_guard *guard;
    bool refused; /* an address was refused; curl returns CURLE_COULDNT_CONNECT */
};

/* For CURLOPT_OPENSOCKETFUNCTION. */
curl_socket_t target_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address);

#endif
