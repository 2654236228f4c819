/*
 * Mails against a real SMTP server: TLS and logins, servers and recipients that fail, hosts that
 * end, and names with line breaks. The module auth queues the mails, which contain links.
 */
#include <sys/stat.h>

#include "exchange.h"
#include "exposition.h"
#include "mailbox.h"
#include "receive.h"

#define MODULES "[auth, chat, health, mail, metrics, webhook]"

enum { TWINS = 2, EACH = 10 };

static struct mailbox *mailbox;
static struct host *host;
static PGconn *db;

/* Prepares a host on its own database; the mailbox is not running yet. */
static void prepare(const char *name, const char *mail)
{
    const char *database = database_make(the_postgres, name);

    mailbox = mailbox_make(name);
    host =
        host_prepare(&(struct host_spec){.name = name,
                                         .database = database,
                                         .modules = MODULES,
                                         .more = text("%s" WEBHOOK_LOCAL "  retry_delays: [0.1]\n",
                                                      mailbox_section(mailbox, mail))});
    db = database_connect(the_postgres, database);
}

static void run(void)
{
    ck_assert(host_run(host));
    status_soon(host, "/api/health/ready", NULL, 200); /* the outbox was created */
}

/* Makes an active account without a known password. */
static const char *account_make(const char *name)
{
    const char *email = text("%s@example.com", name);

    sql_run(db, text("INSERT INTO auth_account (email, password, role, status, approved) SELECT "
                     "'%s', password, 'Buyer', 'Active', now() FROM auth_account LIMIT 1",
                     email));
    return email;
}

static void ask_for_link_on(const struct host *at, const char *email)
{
    ask_on(at, NULL, 202, "{'message':'*'}", "POST /api/user/password/reset-request {'email':'%s'}",
           email);
}

static const char *ask_for_link(const char *name)
{
    const char *email = account_make(name);

    ask_for_link_on(host, email);
    return email;
}

static void outbox_is_empty_soon(void)
{
    sql_soon(db, "SELECT (count(*) = 0)::int FROM mail_outbox");
}

TEST(a_mail_is_sent_over_tls_after_a_login)
{
    const struct tls_pair authority = tls_make("mail-authority", "DNS:authority", NULL);
    const struct tls_pair server = tls_make("mail-server", "IP:127.0.0.1", &authority);

    for (int i = 0; i < 2; i++) {
        const char *how = i ? "tls" : "starttls", *name = text("mail_%s", how);

        prepare(name, text("  tls: %s\n  authorities: \"%s\"\n  user: host\n  password: \"%s\"\n"
                           "  from: no-reply@busbar.example\n  from_name: Größe\n",
                           how, authority.certificate, "secret-password"));
        mailbox_run(mailbox, text("--%s %s %s --login host secret-password", how,
                                  server.certificate, server.key));
        run();
        const char *email = ask_for_link("ada");
        const json_t *mail = mailbox_wait(mailbox, email, 1);

        expect_json(mail, "{'from':'no-reply@busbar.example','to':['ada@example.com'],'tls':true,"
                          "'login':true,'headers':{'To':'ada@example.com','From':'Größe "
                          "<no-reply@busbar.example>','Subject':'Größe: choose a new password',"
                          "'Message-ID':'<*@busbar.example>'}}");
        mail_token(mail);
        outbox_is_empty_soon();
        host_logs(host, 0, "mail sent");
    }
}

TEST(a_server_without_the_expected_tls_gets_no_login_and_no_mail)
{
    const struct tls_pair server = tls_make("mail-unknown", "IP:127.0.0.1", NULL);

    prepare("mail_unknown", "  tls: starttls\n  user: host\n  password: secret-password\n");
    mailbox_run(mailbox, text("--starttls %s %s", server.certificate, server.key));
    run();
    ask_for_link("ada");
    host_logs(host, 0, "mail not sent, retry in 1 s");
    host_logs(host, 0, "certificate");
    mailbox_stop(mailbox);
    mailbox_run(mailbox, ""); /* without TLS */
    size_t from = host_log_size(host);

    host_logs(host, from, "mail not sent");
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 0);
    sql_is(db, 1, "SELECT count(*) FROM mail_outbox");
}

TEST(a_mail_waits_until_a_wrong_password_is_corrected)
{
    const struct tls_pair server = tls_make("mail-password", "IP:127.0.0.1", NULL);
    const char *mail = "  tls: starttls\n  user: host\n  authorities: \"%s\"\n  password: %s\n";

    prepare("mail_password", text(mail, server.certificate, "wrong-password"));
    mailbox_run(mailbox, text("--starttls %s %s --login host secret-password", server.certificate,
                              server.key));
    run();
    const char *email = ask_for_link("ada");

    host_logs(host, 0, "mail not sent");
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 0);
    char *conf = file_text(host->conf), *wrong = strstr(conf, "wrong-password");

    file_write(host->conf, text("%.*ssecret-password%s", (int)(wrong - conf), conf,
                                wrong + strlen("wrong-password")));
    host_says(host, 0, "reload");
    ck_assert(json_is_true(json_object_get(mailbox_wait(mailbox, email, 1), "login")));
    EACH_TEXT (secret, "wrong-password", "secret-password")
        ck_assert_uint_eq(host_logged(host, secret), 0);
}

TEST(a_refused_recipient_delays_no_other_mail)
{
    prepare("mail_refused", NULL);
    mailbox_run(mailbox, "");
    run();
    EACH_TEXT (name, "refused", "spam", "later", "good")
        ask_for_link(name);
    mailbox_wait(mailbox, "good@example.com", 1);
    mailbox_wait(mailbox, "later@example.com", 1);
    outbox_is_empty_soon();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 2);
    WAIT_UNTIL(host_logged(host, "mail abandoned") == 2, 20000);
    WAIT_UNTIL(host_logged(host, "mail not sent") == 1, 20000);
    struct person *admin = admin_of(host);

    ask(admin, 200, "busbar_mail_mails_total{outcome=\"abandoned\"} 2\n", "GET /metrics");
}

/* The host is killed between queueing and sending, while the server is down. */
TEST(a_killed_host_loses_no_mail)
{
    prepare("mail_killed", NULL);
    run();
    const char *email = ask_for_link("ada");

    host_logs(host, 0, "mail not sent");
    host_kill(host);
    mailbox_run(mailbox, "");
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 0);
    run();
    mailbox_wait(mailbox, email, 1);
    outbox_is_empty_soon();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 1);
}

/* This happens while secrets.keys is changed on one host after another. */
TEST(a_mail_whose_key_a_host_lacks_stays_in_the_outbox)
{
    prepare("mail_key", NULL);
    run();
    const char *email = ask_for_link("ada");

    host_logs(host, 0, "mail not sent, retry");
    host_stop(host);
    sql_run(db, "DELETE FROM auth_key"); /* the rows of both keys */
    char *conf = file_text(host->conf);
    const char *key = strstr(conf, "keys: [\"") + strlen("keys: [\""),
               *other = text_repeated("0", 64);
    size_t from = host_log_size(host);

    file_write(host->conf, text("%.*s%s%s", (int)(key - conf), conf, other, key + strlen(other)));
    sql_run(db, "UPDATE mail_outbox SET due = now()");
    mailbox_run(mailbox, "");
    run();
    host_logs(host, from, "mail not sent, because secrets.keys lacks its key");
    host_stop(host);
    sql_is(db, 1, "SELECT count(*) FROM mail_outbox");
    sql_run(db, "DELETE FROM auth_key");
    file_write(host->conf, conf);
    sql_run(db, "UPDATE mail_outbox SET due = now()");
    run();
    mailbox_wait(mailbox, email, 1);
    outbox_is_empty_soon();
}

TEST(a_full_outbox_drops_mails_and_logs_it)
{
    prepare("mail_full", "  tls: none\n  queue: 1\n");
    run();
    ask_for_link("one");
    sql_soon(db, "SELECT count(*) FROM mail_outbox");
    ask_for_link("two");
    host_logs(host, 0, "mail dropped, because the outbox is full: kind=password-reset");
    sql_is(db, 1, "SELECT count(*) FROM mail_outbox");
}

TEST(a_silent_server_does_not_prevent_a_stop)
{
    prepare("mail_silent", "  tls: none\n");
    struct catcher *silent = catcher_of(ANSWER_NONE);
    char *conf = file_text(host->conf), *port = text("port: %d\n", mailbox->port);
    char *at = strstr(conf, port);

    file_write(host->conf,
               text("%.*sport: %d\n%s", (int)(at - conf), conf, silent->port, at + strlen(port)));
    run();
    ask_for_link("ada");
    WAIT_UNTIL(catcher_connections(silent) > 0, 20000);
    host_stop(host);
}

TEST(settings_that_would_send_a_password_in_the_clear_are_refused)
{
    int status;

    prepare("mail_settings", "  tls: none\n  user: host\n  password: secret-password\n");
    ck_assert(!host_run(host));
    ck_assert_uint_ge(host_logged(host, "a password is not sent without TLS"), 1);
    ck_assert_ptr_null(strstr(host_ask(host, "check", &status), "secret-password"));
}

SUITE(mail, .timeout_s = 120)

/* ---- tests that share a host ---- */

static void set_up(void)
{
    prepare("mail", NULL);
    run();
}

/* The suite's host gets an empty outbox and mailbox, whose server is not running yet. */
static void begin(const char *name)
{
    mailbox->directory = harness_path(text("%s.mails", name));
    ck_assert_int_eq(mkdir(mailbox->directory, 0700), 0);
    db = database_connect(the_postgres, host->name);
    sql_run(db, "DELETE FROM mail_outbox");
}

static void end(void)
{
    if (mailbox->pid)
        mailbox_stop(mailbox);
}

TEST(two_hosts_send_each_mail_once)
{
    begin("mail_two");
    struct host *other = host_start(&(struct host_spec){.name = "mail_two-2",
                                                        .database = host->name,
                                                        .modules = MODULES,
                                                        .more = mailbox_section(mailbox, NULL)});
    const char *emails[TWINS * EACH];

    for (int i = 0; i < TWINS * EACH; i++) {
        emails[i] = account_make(text("twin-%d", i));
        ask_for_link_on(i % 2 ? host : other, emails[i]);
    }
    sql_soon(db, text("SELECT (count(*) = %d)::int FROM mail_outbox", TWINS * EACH));
    sql_run(db, "UPDATE mail_outbox SET due = now()");
    mailbox_run(mailbox, "");
    for (int i = 0; i < TWINS * EACH; i++)
        mailbox_wait(mailbox, emails[i], 1);
    outbox_is_empty_soon();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), TWINS * EACH);
    host_stop(other);
}

TEST(a_mail_that_expires_is_abandoned)
{
    begin("mail_expired");
    size_t from = host_log_size(host);

    ask_for_link("ida");
    host_logs(host, from, "mail not sent");
    for (int i = 0; i < 2; i++) { /* each delay is twice the previous one, up to 4 hours */
        sql_run(db, text("UPDATE mail_outbox SET attempts = %d, due = now()", i ? 14 : 3));
        host_logs_line(host, from, i ? "retry in 14400 s" : "retry in 8 s",
                       i ? "attempts=15" : "attempts=4");
    }
    sql_run(db, "UPDATE mail_outbox SET expires = now(), due = now()");
    host_logs(host, from, "it waited too long");
    outbox_is_empty_soon();
}

static void expect_waiting(const char *token, int count)
{
    WAIT_UNTIL(exposition_value(exposition_get(host, token), "busbar_mail_waiting", "") == count,
               20000);
}

TEST(nothing_is_sent_while_work_is_paused)
{
    begin("mail_paused");
    const char *token = admin_of(host)->token;

    mailbox_run(mailbox, "");
    expect_waiting(token, 0);
    host_says(host, 0, "pause");
    const char *email = ask_for_link("pia");

    expect_waiting(token, 1); /* counted by the sender, which has found nothing to send */
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 0);
    sql_is(db, 0, "SELECT attempts FROM mail_outbox");
    host_says(host, 0, "resume");
    mailbox_wait(mailbox, email, 1);
}

/* Names with control characters cannot be stored over the API; here they are in the database. The
 * mail is larger than the buffers of libcurl. */
TEST(line_breaks_in_names_add_no_header_and_no_recipient)
{
    begin("mail_injection");
    mailbox_run(mailbox, "");
    const char *email = account_make("ada");

    sql_run(db, "WITH o AS (INSERT INTO auth_organisation (name) VALUES "
                "(E'Sönne\\r\\nBcc: b@example.com\\r\\n\\r\\nx') RETURNING id) "
                "UPDATE auth_account SET organisation = (SELECT id FROM o), "
                "first_name = E'A\\r\\n.\\r\\nMAIL FROM:<c@example.com>' || repeat('x', 200000) "
                "WHERE email LIKE 'ada@%'");
    sql_run(db, "INSERT INTO auth_link_request (purpose, email, language) VALUES ('invite', "
                "'ada@example.com', 'de-DE,de;q=0.9')");
    const json_t *mail = mailbox_wait(mailbox, email, 1);

    expect_json(mail, "{'to':['ada@example.com'],'headers':{'Bcc':'(absent)','Subject':"
                      "'busbar: Einladung für Sönne  Bcc: b@example.com    x'}}");
    ck_assert_ptr_nonnull(
        strstr(mail_body(mail),
               text("Guten Tag A  .  MAIL FROM:<c@example.com>%s,\n", text_repeated("x", 200000))));
    outbox_is_empty_soon();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 1);
}

TEST(the_outbox_and_the_log_do_not_contain_the_token)
{
    begin("mail_secret");
    const char *email = ask_for_link("eve");

    sql_soon(db, "SELECT count(*) FROM mail_outbox");
    sql_is(db, 0,
           "SELECT count(*) FROM mail_outbox WHERE position("
           "'password'::bytea IN message) > 0");
    mailbox_run(mailbox, "");
    const char *token = mail_token(mailbox_wait(mailbox, email, 1));

    outbox_is_empty_soon();
    ck_assert_uint_eq(host_logged(host, token), 0);
    ck_assert_uint_eq(host_logged(host, "choose a new"), 0);
    sql_is(db, 1,
           "SELECT count(*) FROM auth_link WHERE "
           "hash = sha256('%s'::bytea)",
           token);
}

TEST(the_command_prints_whether_the_server_takes_a_mail)
{
    begin("mail_command");
    ck_prints(host, 1, "not sent to ada@example.com: ", "mail", "test", "ada@example.com");
    mailbox_run(mailbox, "");
    ck_prints(host, 0, "sent to ada@example.com", "mail", "test", "ada@example.com");
    ck_prints(host, 1, "RCPT failed: 550", "mail", "test", "refused@example.com");
    ck_assert_str_eq(mail_header(mailbox_wait(mailbox, "ada@example.com", 1), "Subject"),
                     "busbar: test");
}

TEST(the_owner_of_a_failing_webhook_gets_a_mail_an_hour_about_each_event)
{
    begin("mail_notices");
    mailbox_run(mailbox, "");
    struct person *admin = admin_of(host);
    int port = receiver_none()->at.port; /* nobody listens there */
    struct webhook_made made = webhook_make(
        host, admin, text("http://127.0.0.1:%d/secret-of-the-receiver", port), "message.new");
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "b@example.com", NULL);

    for (int i = 0; i < 2; i++) {
        sql_run(db, "UPDATE webhook_hook SET exhausted_at = NULL");
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "A text"), 201);
        webhook_wait(host, admin, &made, "abandoned", 20000);
        const json_t *mail = mailbox_wait(mailbox, ADMIN_EMAIL, 2); /* failing and exhausted */

        expect_json(mail, text("{'headers':{'Subject':'busbar: *webhook*%jd *'}}", made.id));
        ck_assert_ptr_nonnull(strstr(mail_body(mail), text("http://127.0.0.1:%d", port)));
        ck_assert_ptr_null(strstr(mail_body(mail), "secret-of-the-receiver"));
    }
    outbox_is_empty_soon();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), 2);
}

SUITE(mail_outbox, .timeout_s = 120, .before_all = set_up, .after_each = end)
