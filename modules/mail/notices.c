/*
 * Mails to the owner of a webhook whose health has changed. The hooks run in the transaction that
 * records the change; the module webhook declares the events.
 */
#include <string.h>

#include "modules/mail/mail.h"
#include "modules/mail/mails.h"

enum { EVERY_S = 3600 }; /* between two mails about the same event of a webhook */

static const struct notice {
    const char *event;
    struct bb_table texts;
} notices[] = {
    {"webhook.failing", BB_TABLE(failing)},
    {"webhook.recovered", BB_TABLE(recovered)},
    {"webhook.disabled", BB_TABLE(disabled)},
    {"webhook.exhausted", BB_TABLE(exhausted)},
};

static const char *notices_number(struct bb_request *rq, const json_t *payload, const char *name)
{
    return bb_format(rq, "%lld", (long long)json_integer_value(json_object_get(payload, name)));
}

/* Returns the scheme and host of a URL, because its path may contain a secret of the receiver. */
static const char *notices_address(struct bb_request *rq, const char *url)
{
    const char *host = url ? strstr(url, "://") : NULL;

    return host ? bb_format(rq, "%.*s", (int)(host + 3 - url + (long)strcspn(host + 3, "/?#")), url)
                : "";
}

int mail_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event, void *state)
{
    const struct mail *mail = state;
    const char *const *owner = event->audience->emails;
    const struct notice *notice = notices;
    const json_t *payload = event->payload;

    if (!mail->settings->webhooks || !owner || !owner[0])
        return 0;
    while (strcmp(notice->event, event->name) != 0)
        notice++; /* each event with a hook has a row */
    const char *webhook = notices_number(rq, payload, "webhookId");
    const struct bb_mail_value values[] = {
        {"webhook", webhook},
        {"address", notices_address(rq, json_string_value(json_object_get(payload, "url")))},
        {"since", json_string_value(json_object_get(payload, "since"))},
        {"reason", json_string_value(json_object_get(payload, "reason"))},
        {"count", notices_number(rq, payload, "count")},
    };
    const struct bb_mail_message message = {
        .size = sizeof(message),
        .kind = notice->event,
        .to = owner[0],
        .texts = notice->texts,
        .values = BB_TABLE(values),
        .key = bb_format(rq, "%s %s", notice->event, webhook),
        .every_s = EVERY_S,
    };

    return mail_service.queue(state, rq, tx, &message);
}
