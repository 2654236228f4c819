/* The log of deliveries: what it keeps of each attempt, searches in it, and its export. */
#include "deliver.h"

#define ANSWER_THANKS "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nthanks"

enum { SCANNED = 20000 };

static void expect_request(const json_t *attempt, const struct caught *caught)
{
    const json_t *headers = json_object_get(attempt, "requestHeaders");

    EACH_TEXT (name, "X-Webhook-Event", "X-Webhook-Attempt", "X-Webhook-Signature", "webhook-id",
               "webhook-timestamp", "webhook-signature", "traceparent", "Content-Type")
        ck_assert_str_eq(json_string_value(json_object_get(headers, name)),
                         caught_header(caught, name));
}

TEST(the_log_keeps_the_response_and_the_headers_of_every_attempt)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_THANKS);
    struct webhook_made made = hook_to(catcher);

    ask(admin, 200, NULL, "PATCH %s {'headers':{'X-Api-Key':'a key of the platform'}}", made.path);
    const json_t *delivery = say_until(&made, "fails once", "delivered");

    expect_json(delivery, "{'attempts':[{'status':500,'answer':'oops','error':null},"
                          "{'status':200,'answer':'thanks','error':null,"
                          "'requestHeaders':{'X-Api-Key':'****','X-Webhook-Attempt':'2'}}]}");
    expect_request(attempt_of(delivery, 0), &catcher->list[0]);
    expect_request(attempt_of(delivery, 1), &catcher->list[1]);
    say("succeeds at once");
    catcher_wait(catcher, 3, 5000);
    delivery = webhook_wait(host, admin, &made, "delivered", 5000);
    expect_json(delivery, "{'attempts':[{'number':1,'status':200,'answer':'thanks'}]}");
    expect_request(attempt_of(delivery, 0), &catcher->list[2]);
}

TEST(a_delivery_that_is_sent_again_keeps_the_log_of_its_first_attempt)
{
    struct catcher *catcher = catcher_of(ANSWER_THANKS, ANSWER_OK);
    struct webhook_made made = hook_to(catcher);

    const json_t *delivery = say_until(&made, "once more", "delivered");

    ask(admin, 200, NULL, "POST %s/deliveries/%jd/resend", made.path,
        (intmax_t)json_integer_value(json_object_get(delivery, "id")));
    catcher_wait(catcher, 2, 5000);
    delivery = webhook_wait(host, admin, &made, "delivered", 5000);
    expect_json(delivery, "{'attempts':[{'answer':'thanks'},{'number':2,'answer':null}]}");
    expect_request(attempt_of(delivery, 0), &catcher->list[0]);
    expect_request(attempt_of(delivery, 1), &catcher->list[1]);
}

static size_t found(const char *path)
{
    return json_array_size(ck_status(http(host, "GET", path, admin->token, NULL), 200)->json);
}

TEST(deliveries_are_found_by_event_status_code_error_and_time)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_GONE);
    struct webhook_made made = hook_to(catcher);
    struct webhook_made dead = webhook_make(
        host, admin, text("http://127.0.0.1:%d/", receiver_none()->at.port), "message.new");

    say_until(&made, "the receiver takes it", "delivered");
    say_until(&made, "the receiver is gone", "abandoned");
    const char *list = text("GET %s/deliveries", made.path);

    exchanges(host, {list, admin, 200, "[{'status':'abandoned'},{'status':'delivered'}]"},
              {text("%s?code=410", list), admin, 200, "[{'status':'abandoned'}]"},
              {text("%s?code=200&event=message.new", list), admin, 200, "[{'status':'delivered'}]"},
              {text("%s?code=200&status=abandoned", list), admin, 200, "[]"},
              {text("%s?event=ping", list), admin, 200, "[]"},
              {text("%s?eventId=0195f3a0-1111-7222-8333-444455556666", list), admin, 200, "[]"},
              {text("%s?error=closed", list), admin, 200, "[]"},
              {text("%s?since=2020-01-01T00:00:00Z&until=2999-01-01T00:00:00Z", list), admin, 200,
               "[{},{}]"},
              {text("%s?since=2999-01-01T00:00:00Z", list), admin, 200, "[]"},
              {text("%s?until=2020-01-01T00:00:00Z", list), admin, 200, "[]"});
    WAIT_UNTIL(found(text("%s/deliveries?error=CONNECT&limit=1", dead.path)) == 1, 5000);
}

TEST(deliveries_are_exported_as_csv)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_GONE);
    struct webhook_made made = hook_to(catcher);

    say_until(&made, "the receiver takes it", "delivered");
    say_until(&made, "the receiver is gone", "abandoned");
    ask(admin, 200,
        "id,event,eventId,status,createdAt,attempts,lastAttemptAt,lastStatus,lastDurationMs,"
        "lastError\r\n",
        "GET %s/deliveries/export.csv", made.path);
    ask(admin, 200, ",abandoned,", "GET %s/deliveries/export.csv?code=410", made.path);
    struct answer *answer =
        ask(admin, 200, ",delivered,", "GET %s/deliveries/export.csv?code=200", made.path);

    ck_assert_ptr_null(strstr(answer->body, "abandoned"));
    int end = 0;

    sscanf(strchr(answer->body, '\n'),
           " %*d,message.new,%*36[0-9a-f-],delivered,%*[0-9T:.Z-],1,%*[0-9T:.Z-],200,%*d, %n",
           &end);
    ck_assert_str_eq(end ? strchr(answer->body, '\n') + end : answer->body, "");
    ck_prints(host, 0,
              "sending      on\nwebhooks     1 active, 0 off, 0 of owners who are not admitted\n",
              "webhook", "status");
    ask(person_make(host, admin, "search-ben", NULL), 404, "Webhook not found",
        "GET %s/deliveries/export.csv", made.path);
}

TEST(a_search_in_many_deliveries_continues_on_the_next_page)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");
    size_t pages = 0, rows = 0;

    ask(admin, 200, NULL, "PATCH %s {'active':false}", made.path);
    sql_run(db, text("INSERT INTO webhook_delivery (webhook, event, event_id, body) SELECT %jd,"
                     " CASE WHEN n = 0 THEN 'conversation.created' ELSE 'message.new' END,"
                     " gen_random_uuid(), '{}' FROM generate_series(0, %d) AS n",
                     made.id, SCANNED + 5));
    EACH_PAGE (page, admin, text("%s/deliveries?event=conversation.created", made.path)) {
        rows += json_array_size(page->json);
        pages++;
    }
    ck_assert_uint_eq(pages, 2);
    ck_assert_uint_eq(rows, 1);
    struct answer *file = ask(admin, 200, ",conversation.created,",
                              "GET %s/deliveries/export.csv?event=conversation.created", made.path);

    ck_assert_ptr_null(strstr(file->body, "message.new"));
}

DELIVER_SUITE(webhook_search, "", 120)
