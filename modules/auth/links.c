/*
 * Links that are sent by mail: to choose a new password, to confirm an e-mail, and to accept an
 * invitation. Each link has a random token, which works once; the database has only its hash.
 *
 * The handler of a request for a link only stores the request as a row. Then another fiber deletes
 * the row, looks up the account, and adds the mail to the outbox. So neither the response nor its
 * time depends on whether an account has the e-mail, and a request is not lost after its response.
 */
#include <string.h>

#include "modules/auth/auth.h"
#include "modules/auth/mails.h"

enum {
    TOKEN_BYTES = 32,
    LINKS_MAX = 3, /* valid links of an account for one purpose; further requests send nothing */
    LANGUAGES_MAX = 64 /* bytes of Accept-Language */
};

#define LANGUAGE_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_*;=.,\t "

static const struct purpose {
    const char *name, *kind;
    int64_t life_s; /* lifetime of the link, which the texts in mails.txt name, too */
    struct bb_table texts;
} purposes[] = {
    {"reset", "password-reset", 30 * 60, BB_TABLE(reset_texts)},
    {"confirm", "confirm-email", 3 * 86400, BB_TABLE(confirm_texts)},
    {"invite", "invitation", 7 * 86400, BB_TABLE(invite_texts)},
};

bool auth_sends_mail(struct bb_host *host)
{
    return bb_service(host, "mail").interface != NULL;
}

/* ---- sending ---- */

/* Deletes one request. If an account matches, stores a link and adds its mail to the outbox. */
static int links_work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql take = {
        "DELETE FROM auth_link_request WHERE id = (SELECT id FROM auth_link_request ORDER BY id "
        "LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING purpose, email, language",
        0};
    /* $1 hash, $2 e-mail, $3 purpose, $4 seconds, $5 maximum of links */
    static const struct bb_sql make = {
        "WITH a AS (SELECT a.id, a.email, concat_ws(' ', nullif(a.first_name, ''), "
        "nullif(a.last_name, '')) AS name, o.name AS organisation "
        "FROM auth_account a LEFT JOIN auth_organisation o ON o.id = a.organisation "
        "WHERE a.email = $2 AND a.status IN ('Pending', 'Active') "
        "AND ($3 <> 'confirm' OR a.confirmed IS NULL) AND (SELECT count(*) FROM auth_link l "
        "WHERE l.account = a.id AND l.purpose = $3 AND l.expires > now()) < $5::bigint "
        "FOR SHARE OF a), " /* a change of the account deletes the link, or has come before it */
        "made AS (INSERT INTO auth_link (hash, account, purpose, email, expires) "
        "SELECT $1::bytea, id, $3, email, now() + make_interval(secs => $4::bigint) FROM a) "
        "SELECT email, name, organisation FROM a",
        0};
    const struct auth *auth = rq->state;
    bool *taken = arg;
    struct bb_service service = bb_service(rq->host, "mail");
    const struct bb_mail *mail = service.interface;
    const struct purpose *purpose = purposes;
    const struct bb_rows *asked = bb_tx_query_or_end(rq, tx, &take, BB_NO_ARGS);

    *taken = bb_count(rq, asked) > 0;
    if (!*taken)
        return 0;
    while (strcmp(purpose->name, bb_cell(rq, asked, 0, 0)) != 0)
        if (++purpose == purposes + sizeof(purposes) / sizeof(purposes[0]))
            return 0; /* unknown purpose, stored by a newer version */

    const char *token = auth_random_hex(rq, TOKEN_BYTES);
    const struct bb_rows *made =
        bb_tx_query_or_end(rq, tx, &make,
                           BB_ARGS(auth_sha256(rq, token), bb_t(bb_cell(rq, asked, 0, 1)),
                                   bb_t(purpose->name), bb_i(purpose->life_s), bb_i(LINKS_MAX)));

    if (!bb_count(rq, made))
        return 0;
    const char *email = bb_cell(rq, made, 0, 0), *name = bb_cell(rq, made, 0, 1);
    const char *organization = bb_cell(rq, made, 0, 2);
    /* the mail shows the address of the page, or only the token if no address is configured */
    const char *link = *auth->settings->link ? auth->settings->link : "{token}";
    const char *marks[][2] = {{"{purpose}", purpose->name}, {"{token}", token}};

    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(link, marks[i][0]);

        if (at)
            link = bb_format(rq, "%.*s%s%s", (int)(at - link), link, marks[i][1],
                             at + strlen(marks[i][0]));
    }
    const struct bb_mail_value values[] = {
        {"email", email},
        {"name", *name ? name : email},
        {"organization", organization ? organization : email},
        {"link", link},
    };
    const struct bb_mail_message message = {
        .size = sizeof(message),
        .kind = purpose->kind,
        .to = email,
        .language = bb_cell(rq, asked, 0, 2),
        .texts = purpose->texts,
        .values = BB_TABLE(values),
        .life_s = purpose->life_s,
    };

    return mail->queue(service.state, rq, tx, &message) ? bb_failed(rq) : 0;
}

/* Handles one request for a link. Returns 1, 0 if there is no request, or -1 on failure. */
static int links_next(struct bb_request *rq, void *arg)
{
    bool taken = false;

    (void)arg;
    if (bb_transaction(rq, links_work, &taken) >= 400) {
        bb_log(rq, BB_WARN, "cannot send a link: %s", bb_sqlstate(rq));
        return -1;
    }
    return taken;
}

void auth_links_job(struct bb_request *rq)
{
    while (auth_sends_mail(rq->host) && bb_scratch(rq, links_next, NULL) > 0)
        ;
}

static void links_run(struct bb_request *rq, void *arg)
{
    (void)arg;
    auth_links_job(rq);
}

static void links_asked(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)rq, (void)tx;
    bb_run(arg, links_run, NULL); /* on failure, the job auth.links sends the link later */
}

const char *auth_languages(struct bb_request *rq)
{
    const char *language = bb_header(rq, "Accept-Language");
    /* a header may have any bytes; the database accepts only UTF-8 */
    size_t length = language ? strspn(language, LANGUAGE_LETTERS) : 0;

    return length ? bb_format(rq, "%.*s", length < LANGUAGES_MAX ? (int)length : LANGUAGES_MAX,
                              language)
                  : NULL;
}

void auth_link_ask(struct bb_request *rq, struct bb_tx *tx, const char *purpose, const char *email,
                   const char *language)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_link_request (purpose, email, language) VALUES ($1, $2, $3)", 0};

    if (bb_add(rq, tx, &insert, BB_ARGS(bb_t(purpose), bb_t(email), bb_t(language))) < 0)
        bb_end(rq, bb_failed(rq));
    bb_after(rq, tx, links_asked, rq->host);
}

/* The mail shows the address of the console: the setting `link` up to the first #, ? or {. */
void auth_mail_approved(struct bb_request *rq, struct bb_tx *tx, const char *email,
                        const char *name, const char *language)
{
    struct bb_service service = bb_service(rq->host, "mail");
    const struct bb_mail *mail = service.interface;
    const char *link = ((const struct auth *)rq->state)->settings->link;
    const struct bb_mail_value values[] = {
        {"email", email},
        {"name", *name ? name : email},
        {"console", bb_format(rq, "%.*s", (int)strcspn(link, "#?{"), link)},
    };
    const struct bb_mail_message message = {
        .size = sizeof(message),
        .kind = "account-approved",
        .to = email,
        .language = language,
        .texts = BB_TABLE(approved_texts),
        .values = BB_TABLE(values),
    };

    if (mail && mail->queue(service.state, rq, tx, &message))
        bb_end(rq, bb_failed(rq));
}

/* ---- requests for a link ---- */

static int links_request(struct bb_request *rq, const char *purpose, const char *text)
{
    const struct auth *auth = rq->state;

    if (!auth_sends_mail(rq->host))
        return bb_fail(rq, 409, "This service sends no mails. Please ask its operator.");
    int status =
        auth_throttle_count(rq, 'l', auth->settings->links_per_address, "requests for links");

    if (status)
        return status;
    bb_audit(rq, bb_text(rq, "email"));
    struct bb_tx *unit = bb_unit(rq, 0);

    auth_link_ask(rq, unit, purpose, bb_text(rq, "email"), auth_languages(rq));
    status = bb_commit(rq, unit, 202, json_pack("{ss}", "message", text));

    return status ? status : bb_failed(rq);
}

int auth_reset_request(struct bb_request *rq)
{
    return links_request(rq, "reset",
                         "If an account has this e-mail, a mail with a link was sent to it.");
}

int auth_confirm_request(struct bb_request *rq)
{
    return links_request(rq, "confirm",
                         "If an account with this e-mail is not confirmed yet, a mail with a link "
                         "was sent to it.");
}

/* ---- using a link ---- */

static int links_invalid(struct bb_request *rq)
{
    return bb_invalid(rq, "token", "was used already or has expired: request another link");
}

struct reset {
    const char *token, *encoded;
};

static int links_store_password(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* If several requests use the same token, only one of them finds the row. */
    static const struct bb_sql use = {
        "WITH l AS (DELETE FROM auth_link WHERE hash = $1::bytea AND purpose <> 'confirm' "
        "AND expires > now() RETURNING account, email) "
        "UPDATE auth_account a SET password = $2, confirmed = coalesce(a.confirmed, now()), "
        "approved = coalesce(a.approved, CASE a.status WHEN 'Active' THEN now() END), "
        "updated = now() FROM l WHERE " LINK_VALID " RETURNING a.id",
        0};
    const struct reset *reset = arg;
    const struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &use, BB_ARGS(auth_sha256(rq, reset->token), bb_t(reset->encoded)));

    if (!bb_count(rq, rows))
        return links_invalid(rq);
    return auth_password_changed(rq, tx, bb_cell_int(rq, rows, 0, 0), NULL);
}

int auth_reset(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT a.email FROM auth_link l JOIN auth_account a ON " LINK_VALID
        " WHERE l.hash = $1::bytea AND l.purpose <> 'confirm' AND l.expires > now()",
        0};
    struct reset reset = {.token = bb_text(rq, "token")};

    /* finds the link before the password is hashed, which is expensive */
    const struct bb_rows *found = bb_query_or_end(rq, &find, BB_ARGS(auth_sha256(rq, reset.token)));

    if (!bb_count(rq, found))
        return links_invalid(rq);
    bb_audit(rq, bb_cell(rq, found, 0, 0));
    reset.encoded = auth_password_hash(rq, "hash", bb_text(rq, "password"));
    return bb_transaction(rq, links_store_password, &reset);
}

int auth_confirm(struct bb_request *rq)
{
    static const struct bb_sql use = {
        "WITH l AS (DELETE FROM auth_link WHERE hash = $1::bytea AND purpose = 'confirm' "
        "AND expires > now() RETURNING account, email) "
        "UPDATE auth_account a SET confirmed = now() FROM l WHERE " LINK_VALID " RETURNING a.id",
        BB_SQL_WRITE};

    if (!bb_count(rq, bb_query_or_end(rq, &use, BB_ARGS(auth_sha256(rq, bb_text(rq, "token"))))))
        return links_invalid(rq);
    return bb_reply(rq, 200, json_pack("{ss}", "message", "E-mail confirmed"));
}
