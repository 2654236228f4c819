/* Archived messages in a bucket. */
#include "s3.h"
#include "stage.h"
#include "talk.h"

static void set_up(void)
{
    const char *name = "device_s3_archive";

    bucket = bucket_make(name, true);
    bucket_run(bucket);
    stage_open(&(struct host_spec){.name = name,
                                   .modules = "[auth, chat, device, health]",
                                   .chat = "  retention_days: 30\n",
                                   .more = bucket_section(bucket, s3_spool(name), NULL)});
}

TEST(messages_move_to_the_bucket_and_back)
{
    const struct person *by = person_make(host, admin, "bucket", NULL);
    struct talk talk = talk_start(host, by, "bucket@shop.example", ADMIN_EMAIL, NULL);

    ck_status(talk_post(host, by, &talk, "bucket@shop.example", "second"), 201);
    json_t *whole = ck_status(talk_chain(host, by, &talk, ""), 200)->json;

    sql_run(db, "UPDATE chat_conversation SET last_at = now() - interval '31 days'");
    host_says(host, 0, "reload"); /* the job runs some seconds later */
    WAIT_UNTIL(sql_number(db, "SELECT count(*) FROM chat_entry") == 1, 30000);
    ck_assert_int_eq(bucket_objects(bucket), 1);
    bucket_mode(bucket, "refuse");
    ck_error(talk_chain(host, by, &talk, ""), 503, "Archived messages");
    bucket_mode(bucket, "pass");
    ck_assert(json_equal(ck_status(talk_chain(host, by, &talk, ""), 200)->json, whole));
}

SUITE(device_s3_archive, .timeout_s = 120, .before_all = set_up, .after_all = s3_close,
      .before_each = stage_connect, .after_each = stage_disconnect)
