/*
 * Events in NATS JetStream: a real nats-server that is started late, killed, full, and one that
 * requires TLS and a login.
 */
#include <nats/nats.h>
#include <sys/stat.h>

#include "exchange.h"
#include "talk.h"
#include "tls.h"

#define MODULES "[auth, chat, health, metrics, nats, webhook]"

enum { SOON_MS = 30000 };

/* A nats-server with the stream "events"; `natsConnection` and `jsCtx` are the test's own client.
 */
static struct {
    const char *name, *configuration, *log, *ca;
    int port;
    pid_t pid;
    natsConnection *client;
    jsCtx *stream;
} server;

static void server_make(const char *name, const char *more)
{
    server.name = name;
    server.port = free_port();
    server.log = harness_path(text("%s.nats.log", name));
    server.configuration = harness_path(text("%s.nats.conf", name));
    file_write(server.configuration,
               text("listen: \"127.0.0.1:%d\"\njetstream { store_dir: \"%s\" }\n%s", server.port,
                    harness_path(text("%s.nats", name)), more));
}

static void server_start(void)
{
    server.pid = process_start(&(struct process_spec){
        .argv = words("nats-server -c %s", server.configuration), .log = server.log});
    WAIT_UNTIL_MSG(strstr(file_text(server.log), "Server is ready"), SOON_MS,
                   "the NATS server does not start:\n%s", file_text(server.log));
}

static void server_run(void)
{
    natsOptions *options;
    jsOptions slow;

    server_start();
    ck_assert_int_eq(natsOptions_Create(&options), NATS_OK);
    natsOptions_SetURL(options, text("%s://localhost:%d", server.ca ? "tls" : "nats", server.port));
    if (server.ca) {
        natsOptions_LoadCATrustedCertificates(options, server.ca);
        natsOptions_SetUserInfo(options, "busbar", "nats-password");
    }
    WAIT_UNTIL(natsConnection_Connect(&server.client, options) == NATS_OK, SOON_MS);
    natsOptions_Destroy(options);
    jsOptions_Init(&slow);
    slow.Wait = 60000;
    ck_assert_int_eq(natsConnection_JetStream(&server.stream, server.client, &slow), NATS_OK);
}

static void server_end(int signal)
{
    jsCtx_Destroy(server.stream);
    natsConnection_Destroy(server.client);
    server.stream = NULL;
    server.client = NULL;
    process_stop(server.pid, signal, SOON_MS);
}

/* Adds the stream "events", or changes the number of messages (-1: any) that it may have. */
static void stream_limit(int64_t messages, bool add)
{
    static const char *subjects[] = {"busbar.>"};
    jsStreamConfig stream;

    jsStreamConfig_Init(&stream);
    stream.Name = "events";
    stream.Subjects = subjects;
    stream.SubjectsLen = 1;
    stream.MaxMsgs = messages;
    stream.Discard = js_DiscardNew;
    stream.Duplicates = 3600LL * 1000000000;
    ck_assert_int_eq(
        (add ? js_AddStream : js_UpdateStream)(NULL, server.stream, &stream, NULL, NULL), NATS_OK);
}

static uint64_t stream_length(void)
{
    jsStreamInfo *about = NULL;
    uint64_t messages;

    if (js_GetStreamInfo(&about, server.stream, "events", NULL, NULL) != NATS_OK)
        return 0;
    messages = about->State.Msgs;
    jsStreamInfo_Destroy(about);
    return messages;
}

/* Waits for this many messages, and fails unless they are the texts "NAME 0", "NAME 1"... */
static void stream_has(const char *name, uint64_t count)
{
    WAIT_UNTIL_MSG(stream_length() >= count, SOON_MS, "the stream has %ju of %ju messages",
                   (uintmax_t)stream_length(), (uintmax_t)count);
    ck_assert_uint_eq(stream_length(), count);
    for (uint64_t i = 0; i < count; i++) {
        natsMsg *message = NULL;

        ck_assert_int_eq(js_GetMsg(&message, server.stream, "events", i + 1, NULL, NULL), NATS_OK);
        ck_assert_str_eq(natsMsg_GetSubject(message), "busbar.message.new");
        expect_json(json_of(text("%.*s", natsMsg_GetDataLength(message), natsMsg_GetData(message))),
                    text("{'message':{'chatEntry':'%s message %ju'}}", name, (uintmax_t)i));
        natsMsg_Destroy(message);
    }
}

static struct host *host;
static struct person *admin, *owner;
static struct talk talk;
static const char *hook; /* the path of the webhook with the destination */
static int posted;

/* Creates a webhook of the Admin with these members, and returns its path. */
static const char *webhook_path(const char *members)
{
    return text("/api/chat/webhooks/%jd",
                answer_int(ask(admin, 201, NULL, "POST /api/chat/webhooks {%s}", members), "id"));
}

static void prepare(const char *more)
{
    host = host_start(&(struct host_spec){
        .name = server.name,
        .modules = MODULES,
        .more = text("nats:\n  servers: [\"%s://localhost:%d\"]\n  timeout: 30\n%s",
                     server.ca ? "tls" : "nats", server.port, more)});
    admin = admin_of(host);
    owner = person_make(host, admin, "nats.owner", NULL);
    talk = talk_start(host, owner, owner->email, "other@example.com", NULL);
    hook = webhook_path("'kind':'poll','events':['message.new'],'destination':'nats'");
    posted = 0;
}

static void post(int count)
{
    for (int end = posted + count; posted < end; posted++)
        ck_status(
            talk_post(host, owner, &talk, owner->email, text("%s message %d", server.name, posted)),
            201);
}

TEST(events_are_published_in_the_order_of_their_commits)
{
    server_make("nats_order", "");
    server_run();
    stream_limit(-1, true);
    prepare("");
    post(230);
    stream_has(server.name, 230);
    ask(admin, 200, "[{'consumer':'nats','offset':'*'}]", "GET %s/consumers", hook);
    /* again, from the beginning: JetStream drops messages whose Nats-Msg-Id it has */
    ask(admin, 200, NULL, "POST %s/commit {'consumer':'nats','offset':0}", hook);
    post(1);
    stream_has(server.name, 231);
    host_stop(host);
    server_end(SIGTERM);
}

TEST(no_event_is_lost_if_the_server_is_down_killed_or_full)
{
    server_make("nats_down", "");
    prepare("");
    post(3);
    host_logs(host, 0, "an event cannot be published, retrying every second");
    server_run(); /* without a stream, nobody stores the event */
    stream_limit(-1, true);
    stream_has(server.name, 3);
    host_logs(host, 0, "events can be published again");
    post(20);
    server_end(SIGKILL);
    post(20);
    server_run();
    stream_has(server.name, 43);
    stream_limit(43, false);
    size_t from = host_log_size(host);

    post(2);
    host_logs(host, from, "maximum messages exceeded");
    ck_assert_uint_eq(stream_length(), 43);
    host_kill(host);
    ck_assert(host_run(host));
    stream_limit(-1, false);
    stream_has(server.name, 45);
    host_stop(host);
    server_end(SIGTERM);
}

TEST(tls_and_a_login_are_used_and_a_certificate_of_another_name_is_refused)
{
    const struct tls_pair authority = tls_make("nats-authority", "DNS:authority", NULL);

    for (int wrong = 0; wrong < 2; wrong++) {
        const char *names = wrong ? "DNS:other.example" : "DNS:localhost";
        const struct tls_pair pair = tls_make(text("nats-%d", wrong), names, &authority);

        server.ca = authority.certificate;
        server_make(text("nats_tls_%d", wrong),
                    text("tls { cert_file: \"%s\", key_file: \"%s\" }\n"
                         "authorization { user: busbar, password: nats-password }\n",
                         pair.certificate, pair.key));
        if (wrong) {
            server_start();
        } else {
            server_run();
            stream_limit(-1, true);
        }
        prepare(text("  user: busbar\n  password: nats-password\n  authorities: \"%s\"\n",
                     authority.certificate));
        post(2);
        if (wrong)
            ck_assert(strstr(host_logs(host, 0, "an event cannot be published"), "SSL Error"));
        else
            stream_has(server.name, 2);
        server_end(SIGTERM);
        host_stop(host);
    }
    server.ca = NULL;
}

TEST(only_an_admin_may_set_the_destination_of_a_polled_webhook)
{
    server_make("nats_member", "");
    prepare("");
    const char *sent = webhook_path("'url':'https://a.example/','events':[]");

    exchanges(
        host,
        {"POST /api/chat/webhooks {'kind':'poll','events':[],'destination':'nats'}", owner, 403,
         "Only an Admin may set the destination of a webhook"},
        {"POST /api/chat/webhooks {'kind':'poll','events':[],'destination':'natz'}", admin, 400,
         "{'errors':[{'field':'destination','problem':'must be one of: nats'}]}"},
        {"POST /api/chat/webhooks {'url':'https://a.example/','events':[],'destination':'nats'}",
         admin, 400,
         "{'errors':[{'field':'destination','problem':'is only possible with the kind poll'}]}"},
        {text("PATCH %s {'destination':'nats'}", sent), admin, 400,
         "{'errors':[{'field':'destination','problem':'is only possible with the kind poll'}]}"},
        {text("PATCH %s {'destination':null}", hook), admin, 200, "{'destination':'(absent)'}"},
        {text("PATCH %s {'destination':'nats'}", hook), admin, 200, "{'destination':'nats'}"});
}

TEST(wrong_settings_are_refused)
{
    static const char *const rows[][2] = {
        {"servers: []", "servers: must have at least one server"},
        {"servers: [\"http://a\"]", "must begin with nats:// or tls://"},
        {"servers: [\"nats://a:b@c\"]", "must be a name or an address"},
        {"servers: [\"nats://a\"]\n  user: b", "user: a password is not sent without TLS"},
        {"subject: \"a.>\"", "subject: must be words with full stops between them"},
        {"certificate: /dev/null", "certificate: needs key"},
        {"credentials: /nowhere", "/nowhere cannot be read"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        host = host_prepare(&(struct host_spec){.name = text("nats_settings_%zu", i),
                                                .database = "none",
                                                .modules = MODULES,
                                                .more = text("nats:\n  %s\n", rows[i][0])});
        ck_assert(!host_run(host));
        host_logs(host, 0, rows[i][1]);
    }
}

SUITE(nats, .timeout_s = 120)
