/* Archived messages in a bucket. */
#include "s3.h"
#include "stage.h"
#include "talk.h"

#include <poll.h>

enum { STUCK = 12 }; /* more requests than the pool has threads */

static void set_up(void)
{
    bucket = bucket_make("device_s3_archive", true);
    bucket_run(bucket);
    stage_open(&(struct host_spec){.name = "device_s3_archive",
                                   .modules = "[auth, chat, device, health]",
                                   .chat = "  retention_days: 30\n",
                                   .log = "  access: false\n",
                                   .more = bucket_section(bucket, s3_spool("device_s3_archive"),
                                                          "  s3_secret_key: " BUCKET_SECRET_KEY
                                                          "\n  s3_timeout: 40000\n")});
}

static void age(const struct talk *talk)
{
    sql_run(db, text("UPDATE chat_conversation SET last_at = now() - interval '31 days' WHERE id ="
                     " %jd",
                     talk->id));
    sql_run(db, "UPDATE chat_archive_state SET hour = 'epoch', id = 0");
}

static int64_t stored(const struct talk *talk)
{
    return sql_number(
        db, text("SELECT count(*) FROM chat_entry WHERE conversation_id = %jd", talk->id));
}

static void archive(const struct talk *talk)
{
    host_says(host, 0, "chat", "archive");
    ck_assert_int_eq(stored(talk), 1);
}

static const char incomplete[] = "the archive is not complete";
static const char *const modes[] = {"hang", "refuse", "cut"};

TEST_EACH(a_bucket_that_fails_loses_no_message, sizeof modes / sizeof *modes)
{
    const struct person *by = person_make(host, admin, text("bucket.%s", modes[_i]), NULL);
    struct talk away = talk_start(host, by, "away@shop.example", ADMIN_EMAIL, NULL);
    struct talk here = talk_start(host, by, "here@shop.example", ADMIN_EMAIL, NULL);
    struct upload_body body = files_named(modes[_i]);
    struct pending_call *pending[STUCK];
    int asked = 0;

    upload_file(&body, "SF_02C", "x", modes[_i], strlen(modes[_i]));
    const struct call post = upload_call(DEVICE, by, &body);
    const struct call chain = call_by(by, "GET /api/chat/chain/%s", away.head);

    ck_status(talk_post(host, by, &away, "away@shop.example", "second"), 201);
    ck_status(talk_post(host, by, &here, "here@shop.example", "second"), 201);
    json_t *whole = ck_status(http_send(host, &chain), 200)->json;

    age(&away);
    archive(&away);
    int objects = bucket_objects(bucket);

    bucket_mode(bucket, modes[_i]);
    age(&here);
    size_t before = host_logged(host, incomplete);

    for (int i = 0; i < STUCK; i++)
        pending[i] = call_begin(host, i ? &chain : &post);
    if (_i == 0) {
        for (; host_logged(host, incomplete) == before; asked++) { /* the job runs every minute */
            ck_status(http(host, "GET", "/api/chat/conversations", by->token, NULL), 200);
            poll(NULL, 0, 250);
        }
        ck_assert_int_gt(asked, 0); /* each call to the bucket hangs for eight seconds */
    } else {
        ck_prints(host, 1, ".chat: PUT: ", "chat", "archive");
    }
    for (int i = 0; i < STUCK; i++)
        s3_expect_refused(call_end(pending[i]));
    if (_i == 0)
        host_logs(host, 0, "PUT: Operation timed out");
    ck_assert_int_eq(stored(&here), 2);
    bucket_mode(bucket, "pass");
    archive(&here);
    ck_assert(json_equal(ck_status(http_send(host, &chain), 200)->json, whole));
    ck_assert_uint_eq(talk_length(host, by, &here), 2);
    ck_status(http_send(host, &post), 201);
    /* a request that was cut may have stored an object */
    bucket_age(bucket);
    WAIT_UNTIL(host_says(host, 0, "device", "sweep") && bucket_objects(bucket) == objects + 2,
               20000);
}

SUITE(device_s3_archive, .timeout_s = 120, .before_all = set_up, .after_all = s3_close,
      .before_each = stage_connect, .after_each = stage_disconnect)
