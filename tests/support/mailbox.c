#include "mailbox.h"

#include <dirent.h>
#include <sys/stat.h>

#include "receive.h"
#include "secrets.h"

enum { READY_MS = 20000, ARRIVE_MS = 30000, TOKEN_DIGITS = 64 };

struct mailbox *mailbox_make(const char *name)
{
    struct mailbox *mailbox = kept(calloc(1, sizeof *mailbox));

    mailbox->directory = harness_path(text("%s.mails", name));
    mailbox->log = harness_path(text("%s.smtp.log", name));
    mailbox->port = receiver_none()->at.port;
    ck_assert_int_eq(mkdir(mailbox->directory, 0700), 0);
    return mailbox;
}

void mailbox_run(struct mailbox *mailbox, const char *options)
{
    mailbox->pid = process_start(&(struct process_spec){
        .argv = words("/usr/bin/python3 " TEST_SMTP "/server.py %d %s%s%s", mailbox->port,
                      mailbox->directory, *options ? " " : "", options),
        .log = mailbox->log});
    WAIT_UNTIL_MSG(port_accepts(mailbox->port), READY_MS, "the SMTP server does not start:\n%s",
                   file_text(mailbox->log));
}

void mailbox_stop(struct mailbox *mailbox)
{
    process_stop(mailbox->pid, SIGTERM, READY_MS);
    mailbox->pid = 0;
}

char *mailbox_section(const struct mailbox *mailbox, const char *more)
{
    return text("mail:\n  server: 127.0.0.1\n  port: %d\n  retry_delay: 1\n%s", mailbox->port,
                more ? more : "  tls: none\n");
}

static int is_mail(const struct dirent *entry)
{
    return strstr(entry->d_name, ".json") != NULL;
}

/* Returns the number of mails to an address and sets *last to the last one. */
static size_t mails(const struct mailbox *mailbox, const char *to, const json_t **last)
{
    struct dirent **entries;
    int count = scandir(mailbox->directory, &entries, is_mail, alphasort);
    size_t found = 0;

    for (int i = 0; i < count; i++) {
        json_t *mail =
            json_load_file(text("%s/%s", mailbox->directory, entries[i]->d_name), 0, NULL);
        const char *recipient = json_string_value(json_array_get(json_object_get(mail, "to"), 0));

        ck_assert_ptr_nonnull(recipient);
        if (!to || strcmp(recipient, to) == 0) {
            found++;
            *last = kept(mail);
        } else {
            json_decref(mail);
        }
        free(entries[i]);
    }
    free(entries);
    return found;
}

size_t mailbox_count(const struct mailbox *mailbox, const char *to)
{
    const json_t *last;

    return mails(mailbox, to, &last);
}

const json_t *mailbox_wait(const struct mailbox *mailbox, const char *to, size_t count)
{
    const json_t *last = NULL;

    WAIT_UNTIL_MSG(mails(mailbox, to, &last) >= count, ARRIVE_MS,
                   "there are not %zu mails to %s; the SMTP server printed:\n%s", count,
                   to ? to : "anybody", file_text(mailbox->log));
    return last;
}

const char *mail_header(const json_t *mail, const char *name)
{
    return json_string_value(json_object_get(json_object_get(mail, "headers"), name));
}

const char *mail_body(const json_t *mail)
{
    return json_string_value(json_object_get(mail, "body"));
}

const char *mail_token(const json_t *mail)
{
    const char *digits = "0123456789abcdef", *at = mail_body(mail);

    while (*at && strspn(at, digits) != TOKEN_DIGITS)
        at++;
    ck_assert_msg(*at != '\0', "the mail has no token:\n%s", mail_body(mail));
    char *token = text("%.*s", TOKEN_DIGITS, at);

    secrets_add(token);
    return token;
}
