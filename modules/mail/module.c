/*
 * The tables and the state of the mail module. Rows are hand-formatted, because clang-format would
 * spread them over many lines.
 */
#include <string.h>
#include <unistd.h>

#include "modules/common/tables.h"
#include "modules/mail/mail.h"
#include "modules/mail/schema.h"

static int mail_open(struct bb_host *host, void **state)
{
    const struct mail_settings *settings = bb_settings(host);
    struct mail *mail = bb_host_alloc(host, sizeof(*mail));

    if (!mail)
        return bb_open_fail(host, "out of memory");
    if (!*settings->server || strpbrk(settings->server, "/@?#[]% \t"))
        return bb_open_fail(host, "server: must be a name or an address, without a port");
    if (*settings->user && strcmp(settings->tls, "none") == 0)
        return bb_open_fail(host, "user: a password is not sent without TLS");
    if (*settings->authorities && access(settings->authorities, R_OK))
        return bb_open_fail(host, "authorities: %s cannot be read", settings->authorities);
    mail->host = host;
    mail->settings = settings;
    *state = mail;
    return 0;
}

static double mail_waiting(void *state, size_t value)
{
    (void)value;
    return (double)atomic_load(&((struct mail *)state)->waiting);
}

// clang-format off

static const char *const tls_choices[] = {"starttls", "tls", "none", NULL};
static const char *const languages[] = {"en", "de", NULL};

#define SETTINGS struct mail_settings
static const struct bb_field settings[] = {
    SETTING_TEXT(server, 0, 255, "localhost", "Name or address of the SMTP server."),
    SETTING_INT(port, 0, 0, 65535, "0",
        "Port of the server. 0: 587 for starttls, 465 for tls, 25 for none."),
    SETTING_CHOICE(tls, tls_choices, "starttls",
        "starttls: the connection must change to TLS before a login or a mail; tls: the connection "
        "begins with TLS; none: no TLS and no login. Use none only for a server on this machine."),
    SETTING_TEXT(authorities, 0, 1024, "",
        "PEM file of the authorities that may sign the server's certificate. Empty: the system's "
        "authorities."),
    SETTING_TEXT(user, 0, 255, "", "User name for the login at the SMTP server. Empty: no login."),
    SETTING_TEXT(password, BB_SECRET, 1024, "", "Password of the user."),
    {.name = "from", .type = BB_EMAIL, .fallback = "busbar@localhost",
     .bind = BB_BIND(struct mail_settings, from), .help = "Address of the sender."},
    SETTING_TEXT(from_name, BB_NAME, 100, "busbar",
        "Name of the sender. The texts of mails contain it, too."),
    SETTING_CHOICE(language, languages, "en",
        "Language of a mail if the language of the recipient is not known."),
    SETTING_INT(timeout, BB_SECONDS, 1, 60, "30",
        "Timeout in seconds for sending a mail to the server."),
    SETTING_INT(retry_delay, BB_SECONDS, 1, 3600, "60",
        "Seconds until the first retry. The delay doubles after each attempt, up to 4 hours."),
    SETTING_INT(max_age, BB_HOURS, 1, 720, "72",
        "Hours after which a mail that could not be sent is abandoned. A mail with a link is "
        "abandoned when the link expires."),
    SETTING_INT(queue, 0, 1, 1000000, "10000",
        "Maximum number of mails in the outbox. Further mails are dropped and logged."),
    SETTING_BOOL(webhooks, "true",
        "Whether owners of webhooks get mails about failing, recovered and disabled webhooks and "
        "abandoned deliveries."),
};

/* Without the module webhook, the host only warns that no module declares these events. */
#define NOTICE(name) {.event = (name), .kind = BB_WITHIN, .within = mail_within}
static const struct bb_hook hooks[] = {
    NOTICE("webhook.failing"),
    NOTICE("webhook.recovered"),
    NOTICE("webhook.disabled"),
    NOTICE("webhook.exhausted"),
};

static const struct bb_service_descriptor services[] = {
    {.name = "mail", .version = 1, .interface = &mail_service},
};

static const struct bb_worker workers[] = {{.name = MAIL_WORKER, .run = mail_work}};

static const char *const outcomes[] = {"queued", "sent", "retried", "abandoned", "dropped", NULL};

static const struct bb_metric metrics[] = {
    {.name = "mails_total", .kind = BB_COUNTER, .label = "outcome", .values = outcomes,
     .help = "Mails of this host by outcome. retried: each failed attempt; dropped: the outbox was "
             "full or the address was invalid."},
    {.name = "waiting", .kind = BB_GAUGE, .read = mail_waiting,
     .help = "Number of mails in the outbox, counted every five seconds."},
};

static const struct bb_field test_options[] = {
    {.name = "to", .type = BB_EMAIL, .flags = BB_REQUIRED, .help = "The recipient."},
};

static const struct bb_command commands[] = {
    {.name = "mail test", .options = BB_TABLE(test_options), .run = mail_command_test,
     .help = "Sends a test mail at once and prints the result."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("mail", "1.0.0"),
    .help = "Mails of other modules, sent over SMTP from an outbox in the database.",
    .schema = mail_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct mail_settings),
    .hooks = BB_TABLE(hooks),
    .services = BB_TABLE(services),
    .workers = BB_TABLE(workers),
    .metrics = BB_TABLE(metrics),
    .commands = BB_TABLE(commands),
    .open = mail_open,
    .flags = BB_MODULE_SEALS,
};
