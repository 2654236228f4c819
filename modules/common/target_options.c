#include <unistd.h>

#include "config.h"
#include "modules/common/target.h"

#define LIFETIME_S 600L    /* of a connection: a new address of a name is used after this time */
#define AUTHORITIES_S 600L /* how long authorities are cached */

CURLcode target_set_options(CURL *easy, const struct target_options *options)
{
    CURLcode bad = CURLE_OK;

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_HTTP_VERSION,
        (long)(options->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)options->timeout_ms);
    SET(CURLOPT_DNS_CACHE_TIMEOUT, 10L);
    SET(CURLOPT_MAXAGE_CONN, (long)options->idle_s);
    SET(CURLOPT_MAXLIFETIME_CONN, LIFETIME_S);
    SET(CURLOPT_CA_CACHE_TIMEOUT, AUTHORITIES_S);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_USERAGENT, "busbar/" PACKAGE_VERSION);
#undef SET
    return bad;
}

bool target_authorities_in_a_file(void)
{
    CURL *easy = curl_easy_init();
    char *file = NULL;
    bool good =
        easy && !curl_easy_getinfo(easy, CURLINFO_CAINFO, &file) && file && access(file, R_OK) == 0;

    curl_easy_cleanup(easy);
    return good;
}
