/*
 * The contract of the reference: the document of all modules passes the linters, and schemathesis
 * checks that every response to its operations is in the document. The examples of the document are
 * executed as shown, and the generated clients have named types. Only ./test contract runs this
 * suite; it installs the programs into the directory BUSBAR_TEST_CONTRACT.
 */
#include <sys/wait.h>

#include "mailbox.h"
#include "stage.h"
#include "talk.h"

#define ALL_MODULES                                                                                \
    "[audit, auth, bulk, certificate, chat, console, device, docs, health, metrics, reading, "     \
    "webhook]"

/* Operations that end sessions, and operations that never end. */
#define LEFT_OUT "(/stream|/logout|/rotate-secret)$"

enum { TOOL_MS = 120000, SHOWN_MAX = 4000 };

static const char *tools, *document;
static struct person *api_user, *owner;

/* Makes an object of each kind, so that guessed ids exist. */
static void make_things(void)
{
    owner = person_make(host, admin, "contract.owner", NULL);
    api_user = person_make(host, admin, "contract.apiuser", "ApiUser");
    ask(owner, 201, NULL, "POST /api/device {'externalId':'0'}");
    talk_start(host, owner, owner->email, api_user->email, NULL);
    ck_status(http(host, "POST", "/api/chat/webhooks", admin->token,
                   json_pack("{ss s[s]}", "url", "https://receiver.example/contract", "events",
                             "message.new")),
              201);
}

static void set_up(void)
{
    tools = getenv("BUSBAR_TEST_CONTRACT");
    ck_assert_msg(tools != NULL, "BUSBAR_TEST_CONTRACT is not set: run ./test contract");
    stage_open(&(struct host_spec){
        .name = "contract",
        .modules = ALL_MODULES,
        .more = text("bulk:\n  files: \"%s\"\ndevice:\n  documents: \"%s\"\n",
                     harness_path("contract-bulk"), harness_path("contract-documents"))});
    make_things();
    document = text("%s/openapi.json", tools);
    file_write(document, ck_status(http(host, "GET", "/openapi.json", NULL, NULL), 200)->body);
}

/* Runs a program in `tools`; prints its output if it fails. */
static void run_tool(const char *name, const char *const *argv)
{
    static const char *const quiet[] = {"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=1",
                                        "NO_COLOR=1", NULL};
    const char *log = harness_path(text("contract-%s.log", name));
    int status = 0;
    pid_t pid =
        process_start(&(struct process_spec){.argv = argv, .environment = quiet, .log = log});

    if (!process_wait(pid, TOOL_MS * PATIENCE, &status))
        status = process_stop(pid, SIGKILL, 1000);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s:\n%.*s", name, SHOWN_MAX,
                  file_text(log)); /* check accepts no longer message */
}

TEST(redocly_reports_no_problem)
{
    const char *config = text("--config=%s/redocly.yaml", tools);
    const char *argv[] = {text("%s/node_modules/.bin/redocly", tools),
                          "lint",
                          config,
                          "--max-problems=20",
                          document,
                          NULL};

    run_tool("redocly", argv);
    const char *said = file_text(harness_path("contract-redocly.log"));

    ck_assert_msg(!strstr(said, "Warning was generated"), "%s", said);
}

TEST(spectral_reports_no_problem)
{
    const char *argv[] = {text("%s/node_modules/.bin/spectral", tools),
                          "lint",
                          "--fail-severity=hint",
                          "--ruleset",
                          text("%s/spectral.yaml", tools),
                          document,
                          NULL};

    run_tool("spectral", argv);
}

/* `operations`: the option of schemathesis that selects them; NULL: all. */
static void keep_to_it(const char *name, const char *token, const char *mode,
                       const char *operations)
{
    const char *argv[] = {"env", /* the program leaves files in its directory */
                          text("--chdir=%s", tools),
                          text("%s/venv/bin/schemathesis", tools),
                          "--config-file",
                          text("%s/schemathesis.toml", tools),
                          "run",
                          document,
                          "--url",
                          text("http://127.0.0.1:%d", host->port),
                          "--exclude-path-regex",
                          LEFT_OUT,
                          "--max-examples=2",
                          "--warnings=off",
                          text("--mode=%s", mode),
                          token ? "--header" : NULL,
                          text("Authorization: Bearer %s", token ? token : ""),
                          operations,
                          NULL};

    run_tool(text("schemathesis-%s", name), argv);
    const char *tested =
        strstr(file_text(harness_path(text("contract-schemathesis-%s.log", name))), "\n  Tested: ");

    ck_assert_msg(tested && atoi(tested + strlen("\n  Tested: ")) > 0, "no operation is selected");
    ck_assert(host_alive(host));
}

/* Runs `prefix` with the host's address and two people. */
static void talk_by(const char *name, const char *const prefix[2])
{
    const struct person *one = person_make(host, admin, text("contract.one.%s", name), NULL);
    const struct person *two = person_make(host, admin, text("contract.two.%s", name), NULL);
    const char *argv[] = {"env",
                          text("PYTHONPATH=%s/made", tools),
                          prefix[0],
                          prefix[1],
                          text("http://127.0.0.1:%d", host->port),
                          one->email,
                          one->password,
                          two->email,
                          two->password,
                          NULL};

    run_tool(name, argv);
}

TEST(a_generated_typescript_client_works)
{
    const char *make[] = {text("%s/node_modules/.bin/openapi-typescript", tools), document,
                          "--output", text("%s/busbar.d.ts", tools), NULL};
    const char *compile[] = {text("%s/node_modules/.bin/tsc", tools), "--project", tools, NULL};

    run_tool("openapi-typescript", make);
    run_tool("tsc", compile);
    talk_by("typescript", (const char *[]){"node", text("%s/made/talk.js", tools)});
}

TEST(a_generated_python_client_works)
{
    const char *make[] = {text("%s/venv/bin/openapi-python-client", tools),
                          "generate",
                          "--path",
                          document,
                          "--meta=none",
                          "--output-path",
                          text("%s/made/busbar_client", tools),
                          "--overwrite",
                          NULL};

    run_tool("openapi-python-client", make);
    talk_by("python",
            (const char *[]){text("%s/venv/bin/python", tools), text("%s/talk.py", tools)});
}

/* On another host, because the examples name certain accounts and devices, and end all sessions. */
TEST(the_examples_of_the_document_succeed)
{
    struct mailbox *mailbox = mailbox_make("contract-examples");

    mailbox_run(mailbox, "");
    struct host *own = host_start(&(struct host_spec){
        .name = "contract-examples",
        .auth = "  invitations: true\n",
        .modules = "[audit, auth, bulk, certificate, chat, console, device, docs, health, mail, "
                   "metrics, reading, webhook]",
        .more = text("%sbulk:\n  files: \"%s\"\ndevice:\n  documents: \"%s\"\n"
                     "certificate:\n  issuer: external\n",
                     mailbox_section(mailbox, NULL), harness_path("examples-bulk"),
                     harness_path("examples-documents"))});
    const char *argv[] = {text("%s/venv/bin/python", tools),
                          text("%s/examples.py", tools),
                          text("http://127.0.0.1:%d", own->port),
                          ADMIN_EMAIL,
                          ADMIN_PASSWORD,
                          mailbox->directory,
                          NULL};

    run_tool("examples", argv);
}

/*
 * Each operation gets invalid requests in one role only, because the schema refuses these requests
 * in the same way in all roles. test_matrix.c tests that others get a 403.
 */
#define OF_ADMIN "/x-roles/0 == Admin"

TEST(responses_to_an_admin_are_in_the_document)
{
    keep_to_it("Admin", admin->token, "all", "--include-by=" OF_ADMIN);
}

TEST(responses_to_an_api_user_are_in_the_document)
{
    keep_to_it("ApiUser-alone", api_user->token, "all", "--exclude-by=" OF_ADMIN);
    keep_to_it("ApiUser", api_user->token, "positive", "--include-by=" OF_ADMIN);
}

TEST(responses_to_anonymous_clients_are_in_the_document)
{
    keep_to_it("nobody", NULL, "positive", NULL);
}

STAGE_SUITE(contract, set_up, TOOL_MS / 1000 + 10, .runs = SUITE_RUNS_NAMED)
