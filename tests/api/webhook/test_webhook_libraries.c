/*
 * The libraries of Standard Webhooks for Node and Python verify requests as they were received.
 * Only
 * ./test contract runs this suite, because it installs the libraries. Both ignore Ed25519
 * signatures, which test_webhook_options.c verifies with openssl.
 */
#include "deliver.h"

#define SECRET "whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBjaGFycyEhISE="

static const char *tools;

static void set_up(void)
{
    tools = getenv("BUSBAR_TEST_CONTRACT");
    ck_assert_msg(tools != NULL, "BUSBAR_TEST_CONTRACT is not set: run ./test contract");
    deliver_open("hooklibraries", "");
}

static const char node[] =
    "const {Webhook} = require('standardwebhooks'), [secret, file, ...h] = process.argv.slice(1);"
    "new Webhook(secret).verify(require('fs').readFileSync(file, 'utf8'), {'webhook-id': h[0],"
    "'webhook-timestamp': h[1], 'webhook-signature': h[2]})";

static const char python[] =
    "import sys, standardwebhooks\n"
    "secret, file, *h = sys.argv[1:]\n"
    "standardwebhooks.Webhook(secret).verify(open(file, 'rb').read(), {'webhook-id': h[0],"
    " 'webhook-timestamp': h[1], 'webhook-signature': h[2]})\n";

/* Returns whether the library accepts the request. */
static bool verifies(bool in_node, const struct caught *caught, const char *body)
{
    const char *file = harness_path("library.body");
    const char *path[] = {text("NODE_PATH=%s/node_modules", tools), NULL};
    const char *argv[] = {in_node ? "node" : text("%s/venv/bin/python", tools),
                          in_node ? "-e" : "-c",
                          in_node ? node : python,
                          SECRET,
                          file,
                          caught_header(caught, "webhook-id"),
                          caught_header(caught, "webhook-timestamp"),
                          caught_header(caught, "webhook-signature"),
                          NULL};

    file_write(file, body);
    return process_run(&(struct process_spec){
               .argv = argv, .environment = path, .log = harness_path("library.log")}) == 0;
}

static const char *const signatures[] = {"hmac", "both"};

TEST_EACH(the_libraries_of_standard_webhooks_verify_requests, 2)
{
    struct catcher *catcher = catcher_start(NULL);
    struct answer *answer =
        ask(admin, 201, NULL,
            "POST " WEBHOOKS " {'url':'%s','events':['message.new'],'secret':'" SECRET
            "','signature':'%s'}",
            catcher_url(catcher, "library"), signatures[_i]);
    int64_t id = answer_int(answer, "id");

    say("to be verified: é ß € \\u0041");
    for (size_t round = 0; round < 2; round++) {
        const struct caught *caught = catcher_wait(catcher, round + 1, 5000);

        for (int in_node = 0; in_node < 2; in_node++) {
            ck_assert_msg(verifies(in_node, caught, caught->body), "%s",
                          file_text(harness_path("library.log")));
            ck_assert(!verifies(in_node, caught, text("%s ", caught->body)));
        }
        if (round == 0) { /* the previous secret still signs */
            ask(admin, 200, NULL, "POST " WEBHOOKS "/%jd/rotate-secret", id);
            say("signed with two secrets");
        }
    }
}

STAGE_SUITE(webhook_libraries, set_up, 60, .runs = SUITE_RUNS_NAMED)
