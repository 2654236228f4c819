/* Optional members of a webhook: what is accepted, shown and sent. */
#include "deliver.h"

static void option_expect(const struct webhook_made *made, const char *expected)
{
    ask(admin, 200, expected, "GET %s", made->path);
}

/* ---- name and description ---- */

TEST(a_name_and_a_description_are_stored_changed_and_cleared)
{
    struct webhook_made made =
        webhook_with(host, admin, PUBLIC_URL, "'name':'Orders','description':'By ops'");

    option_expect(&made, "{'name':'Orders','description':'By ops'}");
    ask(admin, 200, "{'name':'Orders 2','description':'By ops'}", "PATCH %s {'name':'Orders 2'}",
        made.path);
    ask(admin, 200, "{'name':'Orders 2','description':'(absent)'}", "PATCH %s {'description':null}",
        made.path);
}

/* ---- headers ---- */

TEST(headers_are_sent_masked_in_responses_and_encrypted_in_the_database)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "headers"),
                     "'headers':{'X-Api-Key':'a key of the platform','X-Tenant':'abc'}");

    option_expect(&made, "{'headers':{'X-Api-Key':'****form','X-Tenant':'****'}}");
    say("with a key");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);

    expect_signed(caught, TEST_SECRET);
    ck_assert_str_eq(caught_header(caught, "X-Api-Key"), "a key of the platform");
    ck_assert_str_eq(caught_header(caught, "X-Tenant"), "abc");
    sql_is(db, 0,
           "SELECT count(*) FROM webhook_hook WHERE headers IS NOT NULL AND"
           " position(convert_to('platform', 'UTF8') in headers) > 0");
}

TEST(a_patch_replaces_all_headers_leaves_them_or_clears_them)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = webhook_with(host, admin, catcher_url(catcher, "headers"),
                                            "'headers':{'X-A':'one','X-B':'two'}");

    ask(admin, 200, "{'headers':{'X-B':'****','X-A':'(absent)'}}",
        "PATCH %s {'headers':{'X-B':'2'}}", made.path);
    ask(admin, 200, "{'headers':{'X-B':'****'}}", "PATCH %s {'events':['message.new']}", made.path);
    say("one header");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);

    ck_assert_ptr_null(caught_header(caught, "X-A"));
    ck_assert_str_eq(caught_header(caught, "X-B"), "2");
    ask(admin, 200, "{'headers':'(absent)'}", "PATCH %s {'headers':null}", made.path);
    say("no header");
    ck_assert_ptr_null(caught_header(catcher_wait(catcher, 2, 5000), "X-B"));
}

TEST(an_attempt_in_flight_keeps_the_headers_that_a_patch_removes)
{
    struct catcher *catcher = catcher_of(ANSWER_500, ANSWER_OK);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "headers"),
                     "'headers':{'X-Version':'1'},'retryPolicy':{'delays':[5]}");

    say("fails once");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 1, 5000), "X-Version"), "1");
    ask(admin, 200, NULL, "PATCH %s {'headers':{'X-Version':'2'}}", made.path);
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 2, 5000), "X-Version"), "2");
}

/* The member of a creation, and the field of the error; NULL: it is accepted. */
static const char *const headers[][2] = {
    {"{'X-A':'1'}", NULL},
    {"{'Authorization':'Bearer x','Cookie':'a=b','Accept':'*/*'}", NULL},
    {"{}", NULL},
    {"null", NULL},
    {"'X-A: 1'", "headers"},
    {"['X-A']", "headers"},
    {"{'X A':'1'}", "headers"},
    {"{'':'1'}", "headers"},
    {"{'X-A:':'1'}", "headers"},
    {"{'X-Ä':'1'}", "headers"},
    {"{'X-A\\r\\nX-B':'1'}", "headers"},
    {"{'X-A':1}", "headers.X-A"},
    {"{'X-A':null}", "headers.X-A"},
    {"{'X-A':''}", "headers.X-A"},
    {"{'X-A':' '}", "headers.X-A"},
    {"{'X-A':'1\\r\\nX-B: 2'}", "headers.X-A"},
    {"{'X-A':'é'}", "headers.X-A"},
    {"{'X-A':'****form'}", "headers.X-A"},
    {"{'Host':'a'}", "headers.Host"},
    {"{'hOST':'a'}", "headers.hOST"},
    {"{'Content-Type':'a'}", "headers.Content-Type"},
    {"{'content-anything':'a'}", "headers.content-anything"},
    {"{'Connection':'close'}", "headers.Connection"},
    {"{'Transfer-Encoding':'chunked'}", "headers.Transfer-Encoding"},
    {"{'Proxy-Authorization':'a'}", "headers.Proxy-Authorization"},
    {"{'TE':'a'}", "headers.TE"},
    {"{'Upgrade':'a'}", "headers.Upgrade"},
    {"{'User-Agent':'a'}", "headers.User-Agent"},
    {"{'webhook-id':'a'}", "headers.webhook-id"},
    {"{'Webhook-Signature':'a'}", "headers.Webhook-Signature"},
    {"{'X-Webhook-Event':'a'}", "headers.X-Webhook-Event"},
    {"{'traceparent':'a'}", "headers.traceparent"},
};

TEST_EACH(headers_must_be_ones_that_a_webhook_may_add, sizeof headers / sizeof *headers)
{
    const char *field = headers[_i][1];

    ask(admin, field ? 400 : 201,
        field ? text("{'errors':[{'field':'%s','problem':'*'}]}", field) : NULL, "%s",
        text("POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[],'headers':%s}",
             headers[_i][0]));
}

TEST(headers_are_limited_to_20_and_8_KiB_in_total)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");
    const char *many = "\"X-0\":\"0\"";
    const char *half = text("%0*d", 8192 / 2 - 8, 0); /* a name has 4 bytes, a separator 4 more */

    for (int i = 1; i < 20; i++)
        many = text("%s,\"X-%d\":\"0\"", many, i);
    ask(admin, 200, NULL, "PATCH %s {'headers':{%s}}", made.path, many);
    ask(admin, 400, "{'errors':[{'field':'headers'}]}", "PATCH %s {'headers':{%s,'X-20':'0'}}",
        made.path, many);
    ask(admin, 200, NULL, "PATCH %s {'headers':{'X-AA':'%s','X-BB':'%s'}}", made.path, half, half);
    ask(admin, 400, "{'errors':[{'field':'headers'}]}",
        "PATCH %s {'headers':{'X-AA':'%s','X-BBB':'%s'}}", made.path, half, half);
}

/* ---- tests with a chosen event ---- */

/* The catcher checks each body against the fields that the reference declares. */
TEST(a_test_sends_an_example_of_any_event_that_webhooks_can_subscribe_to)
{
    struct host *all = host_start(
        &(struct host_spec){.name = "hookexamples",
                            .modules = "[auth, chat, device, reading, certificate, bulk, webhook]",
                            .more = WEBHOOK_LOCAL});
    const struct person *by = admin_of(all);
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = webhook_make(all, by, catcher_url(catcher, "test"), "message.new");
    struct answer *events = ask_on(all, by, 200, NULL, "GET " WEBHOOKS "/events");
    size_t index;
    json_t *name;

    webhook_ready("hookexamples", 1);
    ck_assert_uint_ge(json_array_size(events->json), 8);
    json_array_foreach (events->json, index, name) {
        const char *event = json_string_value(name);

        webhook_test(all, by, &made, text(" {'event':'%s'}", event),
                     "{'success':true,'status':200,'error':null}");
        const struct caught *caught = catcher_wait(catcher, index + 1, 5000);

        ck_assert_str_eq(caught_header(caught, "X-Webhook-Event"), event);
        expect_signed(caught, TEST_SECRET);
    }
}

TEST(the_example_of_a_message_has_the_fields_of_a_message)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = hook_to(catcher);

    ask(admin, 200, NULL, "POST %s/test {'event':'message.new'}", made.path);
    json_t *body = kept(json_loads(catcher_wait(catcher, 1, 5000)->body, 0, NULL));

    ck_assert_str_eq(keys_of(body), "conversationId message deviceProjectName");
    expect_json(body, "{'conversationId':1,'deviceProjectName':'Rooftop 7',"
                      "'message':{'uuid':'*-*-*-*-*','username':'operator@example.com',"
                      "'chatEntry':'The inverter is online again.','createdAt':'20*Z'}}");
    json_t *delivery = webhook_wait(host, admin, &made, "delivered", 5000);

    expect_json(delivery, "{'event':'message.new'}");
}

TEST(a_test_without_an_event_or_with_ping_sends_a_ping_and_unknown_events_are_refused)
{
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_OK, ANSWER_OK, ANSWER_GONE);
    struct webhook_made made = hook_to(catcher);

    EACH_TEXT (body, "", " {}", " {'event':null}")
        webhook_test(host, admin, &made, body, "{'success':true,'status':200}");
    webhook_test(host, admin, &made, " {'event':'ping'}", "{'success':false,'status':410}");
    exchanges(host,
              {text("POST %s/test {'event':'message.old'}", made.path), admin, 400,
               "{'errors':[{'field':'event'}]}"},
              {text("POST %s/test {'event':'*'}", made.path), admin, 400},
              {text("POST %s/test {'event':7}", made.path), admin, 400},
              {"POST " WEBHOOKS "/99999999/test {'event':'message.new'}", admin, 404});
    ck_assert_uint_eq(catcher_count(catcher), 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(caught_header(&catcher->list[i], "X-Webhook-Event"), "ping");
        expect_signed(&catcher->list[i], TEST_SECRET);
        ck_assert_str_eq(keys_of(kept(json_loads(catcher->list[i].body, 0, NULL))),
                         "event timestamp");
    }
}

/* ---- signatures ---- */

/* Returns the URL-safe base64 of a JSON Web Key with the standard alphabet and its padding. */
static char *standard_base64(const char *url_safe)
{
    char *base64 = text("%s=", url_safe);

    for (char *at = base64; *at; at++)
        *at = (char)(*at == '-' ? '+' : *at == '_' ? '/' : *at);
    return base64;
}

/* Returns the public key with that index in a webhook's JSON Web Key Set, in standard base64. */
static char *public_key(const struct webhook_made *made, size_t index, size_t count)
{
    struct answer *answer = ask(NULL, 200, NULL, "GET %s/jwks", made->path);
    const json_t *keys = json_object_get(answer->json, "keys");

    ck_assert_uint_eq(json_array_size(keys), count);
    expect_json(json_array_get(keys, index), "{'kty':'OKP','crv':'Ed25519','use':'sig',"
                                             "'alg':'EdDSA','kid':'*','x':'*'}");
    return standard_base64(json_string_value(json_object_get(json_array_get(keys, index), "x")));
}

static void write_base64(const char *path, const char *base64)
{
    ck_assert_int_eq(
        process_run(&(struct process_spec){.argv = (const char *const[]){"sh", "-c",
                                                                         "printf %s \"$1\" |"
                                                                         " base64 -d > \"$2\"",
                                                                         "sh", base64, path, NULL},
                                           .log = harness_path("base64.log")}),
        0);
}

/* Returns the signature with that index ("v1a,…" and so on) of webhook-signature. */
static const char *signature_at(const struct caught *caught, size_t index)
{
    const char *at = caught_header(caught, "webhook-signature");

    for (size_t i = 0; i < index; i++) {
        at = strchr(at, ' ');
        ck_assert_ptr_nonnull(at);
        at++;
    }
    return text("%.*s", (int)strcspn(at, " "), at);
}

/* Verifies a signature with the program openssl. `more` is appended to the text that is signed. */
static bool openssl_verifies(const struct caught *caught, const char *signature, const char *key,
                             const char *more)
{
    static const char beginning[] = "MCowBQYDK2VwAyEA"; /* SubjectPublicKeyInfo of Ed25519 */
    const char *pem = harness_path("ed25519.pem"), *signed_text = harness_path("ed25519.text"),
               *raw = harness_path("ed25519.signature");
    const char *const argv[] = {"openssl", "pkeyutl", "-verify",   "-pubin",   "-inkey", pem,
                                "-rawin",  "-in",     signed_text, "-sigfile", raw,      NULL};

    ck_assert_int_eq(strncmp(signature, "v1a,", 4), 0);
    file_write(
        pem, text("-----BEGIN PUBLIC KEY-----\n%s%s\n-----END PUBLIC KEY-----\n", beginning, key));
    file_write(signed_text, text("%s.%s.%s%s", caught_header(caught, "webhook-id"),
                                 caught_header(caught, "webhook-timestamp"), caught->body, more));
    write_base64(raw, signature + 4);
    return process_run(&(struct process_spec){.argv = argv, .log = harness_path("openssl.log")}) ==
           0;
}

TEST(openssl_verifies_ed25519_signatures_with_the_key_of_the_jwks)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "ed25519"), "'signature':'ed25519'");
    const char *key = public_key(&made, 0, 1);

    option_expect(&made, text("{'signature':'ed25519','publicKey':'whpk_%s'}", key));
    say("signed with a private key");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);
    const char *signature = caught_header(caught, "webhook-signature");

    ck_assert_ptr_null(strchr(signature, ' '));
    ck_assert_ptr_null(caught_header(caught, "X-Webhook-Signature"));
    ck_assert(openssl_verifies(caught, signature, key, ""));
    ck_assert(!openssl_verifies(caught, signature, key, " "));
    sql_is(db, 0,
           "SELECT count(*) FROM webhook_hook WHERE"
           " position(convert_to('whsk_', 'UTF8') in signing_key) > 0");
}

TEST(both_signatures_are_sent_and_after_a_rotation_two_of_each)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_with(host, admin, catcher_url(catcher, "both"), "'signature':'both'");
    const char *old = public_key(&made, 0, 1);

    say("signed twice");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);
    const char *id = caught_header(caught, "webhook-id");
    const char *at = caught_header(caught, "webhook-timestamp");

    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(TEST_SECRET, caught->body, caught->length));
    ck_assert_str_eq(signature_at(caught, 0),
                     hmac_standard(TEST_SECRET, id, at, caught->body, caught->length));
    ck_assert(openssl_verifies(caught, signature_at(caught, 1), old, ""));

    struct answer *answer = ask(admin, 200, NULL, "POST %s/rotate-secret", made.path);
    const char *fresh = answer_text(answer, "secret"), *key = public_key(&made, 0, 2);

    ck_assert_uint_eq(strlen(fresh), 64);
    ck_assert_str_ne(fresh, TEST_SECRET);
    answer_text(answer, "previousSecretUntil");
    ck_assert_str_ne(key, old);
    ck_assert_str_eq(public_key(&made, 1, 2), old);
    ck_assert_str_eq(answer_text(answer, "publicKey"), text("whpk_%s", key));
    say("signed four times");
    caught = catcher_wait(catcher, 2, 5000);
    id = caught_header(caught, "webhook-id");
    at = caught_header(caught, "webhook-timestamp");
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(fresh, caught->body, caught->length));
    ck_assert_str_eq(signature_at(caught, 0),
                     hmac_standard(fresh, id, at, caught->body, caught->length));
    ck_assert_str_eq(signature_at(caught, 1),
                     hmac_standard(TEST_SECRET, id, at, caught->body, caught->length));
    ck_assert(openssl_verifies(caught, signature_at(caught, 2), key, ""));
    ck_assert(openssl_verifies(caught, signature_at(caught, 3), old, ""));

    /* simulates that a day has passed */
    sql_run(db, text("UPDATE webhook_hook SET previous_until = now() - interval '1 s'"
                     " WHERE id = %jd",
                     made.id));
    public_key(&made, 0, 1);
}

TEST(a_webhook_keeps_its_key_until_it_signs_without_one)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");
    const char *none = "{'signature':'(absent)','publicKey':'(absent)'}";

    option_expect(&made, none);
    ask(NULL, 404, NULL, "GET %s/jwks", made.path);
    ask(admin, 200, "{'publicKey':'whpk_*'}", "PATCH %s {'signature':'ed25519'}", made.path);
    const char *first = public_key(&made, 0, 1), *shown = text("{'publicKey':'whpk_%s'}", first);

    ask(admin, 200, shown, "PATCH %s {'signature':'both'}", made.path);
    ask(admin, 200, shown, "PATCH %s {'active':false}", made.path);
    ask(admin, 200, "{'signature':'hmac','publicKey':'(absent)'}", "PATCH %s {'signature':'hmac'}",
        made.path);
    ask(NULL, 404, NULL, "GET %s/jwks", made.path);
    ask(admin, 200, NULL, "POST %s/rotate-secret", made.path);
    ask(NULL, 404, NULL, "GET %s/jwks", made.path);
    ask(admin, 200, "{'signature':'both'}", "PATCH %s {'signature':'both'}", made.path);
    ck_assert_str_ne(public_key(&made, 0, 1), first);
    ask(admin, 200, none, "PATCH %s {'signature':null}", made.path);
    ask(NULL, 404, NULL, "GET " WEBHOOKS "/99999999/jwks");
    ask(admin, 400, "{'errors':[{'field':'signature'}]}", "PATCH %s {'signature':'rsa'}",
        made.path);
    ask(admin, 400, "{'errors':[{'field':'signature'}]}", "PATCH %s {'signature':true}", made.path);
}

DELIVER_SUITE(webhook_options, "", 60)
