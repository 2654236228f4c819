/* One message to the SMTP server, with libcurl, on the calling thread. */
#include <stdio.h>
#include <string.h>

#include "modules/mail/mail.h"

enum { CONNECT_MS = 10000 };

static size_t smtp_read(char *to, size_t size, size_t count, void *arg)
{
    struct smtp_call *call = arg;
    size_t left = call->length - call->sent, room = size * count;

    if (left > room)
        left = room;
    memcpy(to, call->message + call->sent, left);
    call->sent += left;
    return left;
}

static size_t smtp_discard(char *data, size_t size, size_t count, void *arg)
{
    (void)data, (void)arg;
    return size * count;
}

static int smtp_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                         curl_off_t up)
{
    const struct smtp_call *call = arg;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return call->is_over && call->is_over(call->arg);
}

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))

enum smtp_outcome mail_smtp_send(struct smtp_call *call)
{
    const struct mail_settings *settings = call->settings;
    bool ipv6 = strchr(settings->server, ':') != NULL, at_once = strcmp(settings->tls, "tls") == 0;
    int port = at_once ? 465 : strcmp(settings->tls, "none") ? 587 : 25;
    char url[320], from[264], address[264];
    CURL *easy = curl_easy_init();
    CURLcode bad = CURLE_OK;
    long status = 0;

    snprintf(url, sizeof(url), "%s://%s%s%s:%d", at_once ? "smtps" : "smtp", ipv6 ? "[" : "",
             settings->server, ipv6 ? "]" : "", settings->port ? (int)settings->port : port);
    snprintf(from, sizeof(from), "<%s>", settings->from);
    snprintf(address, sizeof(address), "<%s>", call->to);
    struct curl_slist *to = curl_slist_append(NULL, address);

    if (!easy || !to)
        bad = CURLE_OUT_OF_MEMORY;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_USE_SSL,
        strcmp(settings->tls, "starttls") ? (long)CURLUSESSL_NONE : (long)CURLUSESSL_ALL);
    if (*settings->authorities) {
        SET(CURLOPT_CAINFO, settings->authorities);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (*settings->user) {
        SET(CURLOPT_USERNAME, settings->user);
        SET(CURLOPT_PASSWORD, settings->password);
    }
    SET(CURLOPT_MAIL_FROM, from);
    SET(CURLOPT_MAIL_RCPT, to);
    SET(CURLOPT_UPLOAD, 1L);
    SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->length);
    SET(CURLOPT_READFUNCTION, smtp_read);
    SET(CURLOPT_READDATA, call);
    SET(CURLOPT_WRITEFUNCTION, smtp_discard);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, smtp_progress);
    SET(CURLOPT_XFERINFODATA, call);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(CURLOPT_TIMEOUT, (long)settings->timeout);
    SET(CURLOPT_ERRORBUFFER, call->detail);
    if (!bad)
        bad = curl_easy_perform(easy);
    if (easy)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(to);
    if (bad == CURLE_OK)
        return SMTP_SENT;
    if (!*call->detail)
        snprintf(call->detail, sizeof(call->detail), "%s", curl_easy_strerror(bad));
    /*
     * Other commands (MAIL, AUTH) fail for all mails. libcurl names the command only in its
     * message; after the whole message, only the response to it can have been an error.
     */
    bool mine = strncmp(call->detail, "RCPT failed", 11) == 0 ||
                (call->length && call->sent == call->length);

    if (!mine || status < 400)
        return SMTP_UNREACHABLE;
    return status < 500 ? SMTP_DEFERRED : SMTP_REFUSED;
}
