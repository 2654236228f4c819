/* How requests authenticate to receivers: Basic, Bearer, OAuth 2.0 and client certificates. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <sys/socket.h>

#include "deliver.h"
#include "secrets.h"

/* Creates a webhook for message.new; takes ownership of `authentication`. */
static struct webhook_made auth_make(const struct host *on, const struct person *by,
                                     const char *url, json_t *authentication)
{
    return webhook_of(ck_status(
        webhook_create(on, by,
                       json_pack("{ss s[s] ss so}", "url", url, "events", "message.new", "secret",
                                 TEST_SECRET, "authentication", authentication)),
        201));
}

static void auth_patch(const struct webhook_made *made, json_t *authentication,
                       const char *expected)
{
    struct answer *answer = ck_status(
        webhook_change(host, admin, made, json_pack("{so}", "authentication", authentication)),
        200);

    expect_json(answer->json, expected);
}

/* ---- Basic and Bearer ---- */

TEST(basic_and_bearer_credentials_are_sent_masked_and_encrypted)
{
    struct catcher *catcher = catcher_start(NULL);
    const char *url = catcher_url(catcher, "auth");
    struct webhook_made made = auth_make(
        host, admin, url,
        json_pack("{ss ss ss}", "type", "basic", "username", "Anna", "password", "open sesame: 1"));

    secrets_add("open sesame: 1");
    secrets_add("a-token-of-the-receiver");
    ask(admin, 200,
        "{'authentication':{'type':'basic','username':'Anna','password':'****e: 1',"
        "'token':'(absent)'}}",
        "GET %s", made.path);
    say("with a password");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);

    ck_assert_str_eq(caught_header(caught, "Authorization"), "Basic QW5uYTpvcGVuIHNlc2FtZTogMQ==");
    expect_signed(caught, TEST_SECRET);
    auth_patch(&made, json_pack("{ss ss}", "type", "bearer", "token", "a-token-of-the-receiver"),
               "{'authentication':{'type':'bearer','token':'****iver','password':'(absent)'}}");
    ask(admin, 200, NULL, "PATCH %s {'headers':{'authorization':'mine','X-A':'1'}}", made.path);
    say("with a token");
    caught = catcher_wait(catcher, 2, 5000);
    ck_assert_str_eq(caught_header(caught, "Authorization"), "Bearer a-token-of-the-receiver");
    ck_assert_str_eq(caught_header(caught, "X-A"), "1");
    ck_assert_ptr_null(strstr(caught->head, "mine"));
    ask(admin, 200, "{'authentication':'(absent)'}", "PATCH %s {'authentication':null}", made.path);
    say("with the header of the owner");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 3, 5000), "Authorization"), "mine");
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM webhook_hook WHERE position("
                                    "convert_to('type', 'UTF8') in authentication) > 0"),
                     0);
}

/* The member of a creation, and the field of the error. */
static const char *const refused[][2] = {
    {"{}", "authentication.type"},
    {"{'type':'digest'}", "authentication.type"},
    {"'basic'", "authentication"},
    {"{'type':'basic'}", "authentication.username"},
    {"{'type':'basic','username':'a'}", "authentication.password"},
    {"{'type':'basic','username':'a','password':''}", "authentication.password"},
    {"{'type':'basic','username':'a','password':null}", "authentication.password"},
    {"{'type':'basic','username':'a:b','password':'c'}", "authentication.username"},
    {"{'type':'basic','username':'a','password':'c\\r\\nX: 1'}", "authentication.password"},
    {"{'type':'basic','username':'a','password':'****word'}", "authentication.password"},
    {"{'type':'bearer','username':'a'}", "authentication.token"},
    {"{'type':'bearer','token':'a b'}", "authentication.token"},
    {"{'type':'bearer','token':'ä'}", "authentication.token"},
    {"{'type':'bearer','token':'****'}", "authentication.token"},
    {"{'type':'oauth2','clientId':'a','clientSecret':'b'}", "authentication.tokenUrl"},
    {"{'type':'oauth2','tokenUrl':'https://a.example/','clientSecret':'b'}",
     "authentication.clientId"},
    {"{'type':'oauth2','tokenUrl':'https://a.example/','clientId':'a'}",
     "authentication.clientSecret"},
    {"{'type':'oauth2','tokenUrl':'https://10.0.0.1/','clientId':'a','clientSecret':'b'}",
     "authentication.tokenUrl"},
    {"{'type':'oauth2','tokenUrl':'ftp://a.example/','clientId':'a','clientSecret':'b'}",
     "authentication.tokenUrl"},
    {"{'type':'oauth2','tokenUrl':'https://u:p@a.example/','clientId':'a','clientSecret':'b'}",
     "authentication.tokenUrl"},
    {"{'type':'mtls'}", "authentication.certificate"},
    {"{'type':'mtls','certificate':'x'}", "authentication.key"},
    {"{'type':'mtls','certificate':'x','key':'y'}", "authentication.certificate"},
    {"{'type':'mtls','certificate':'x','key':'****'}", "authentication.key"},
};

TEST_EACH(credentials_are_checked_and_errors_name_the_member, sizeof refused / sizeof *refused)
{
    ask(admin, 400, text("{'errors':[{'field':'%s','problem':'*'}]}", refused[_i][1]), "%s",
        text("POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[],'authentication':%s}",
             refused[_i][0]));
}

/* ---- OAuth 2.0 ---- */

#define TOKEN_ANSWER(json, length)                                                                 \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " length "\r\n\r\n" json
#define FIRST_TOKEN                                                                                \
    TOKEN_ANSWER("{\"access_token\":\"token-one\",\"token_type\":\"bearer\",\"expires_in\":3600,"  \
                 "\"id\":100000000000000000000}",                                                  \
                 "95")
#define SECOND_TOKEN                                                                               \
    TOKEN_ANSWER("{\"access_token\":\"token-two\",\"token_type\":\"Bearer\"}", "50")
#define SHORT_TOKEN TOKEN_ANSWER("{\"access_token\":\"token-now\",\"expires_in\":0}", "43")
#define ANSWER_401 "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

static json_t *oauth_of(const struct catcher *endpoint)
{
    return json_pack("{ss ss ss ss ss ss}", "type", "oauth2", "tokenUrl",
                     catcher_url(endpoint, "token"), "clientId", "the client", "clientSecret",
                     "its/secret+of:words", "scope", "hooks:write hooks:read", "audience",
                     "https://receiver.example/?a=b&c");
}

TEST(one_access_token_is_used_for_all_deliveries_until_the_receiver_refuses_it)
{
    struct catcher *endpoint = catcher_of(FIRST_TOKEN, SECOND_TOKEN);
    struct catcher *catcher = catcher_of(ANSWER_OK, ANSWER_OK, ANSWER_401, ANSWER_OK);
    struct webhook_made made =
        auth_make(host, admin, catcher_url(catcher, "oauth"), oauth_of(endpoint));

    secrets_add("its/secret+of:words");
    secrets_add("token-one");
    ask(admin, 200,
        "{'authentication':{'type':'oauth2','clientId':'the client','clientSecret':'****ords',"
        "'scope':'hooks:write hooks:read'}}",
        "GET %s", made.path);
    say("first");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 1, 5000), "Authorization"),
                     "Bearer token-one");
    const struct caught *asked = catcher_wait(endpoint, 1, 5000);

    ck_assert_int_eq(strncmp(asked->head, "POST /token HTTP/1.1\r\n", 22), 0);
    ck_assert_str_eq(caught_header(asked, "Content-Type"), "application/x-www-form-urlencoded");
    ck_assert_str_eq(asked->body, "grant_type=client_credentials&scope=hooks%3Awrite%20hooks%3Aread"
                                  "&audience=https%3A%2F%2Freceiver.example%2F%3Fa%3Db%26c");
    /* "the client" and the secret, each form-encoded (RFC 6749, 2.3.1) */
    ck_assert_str_eq(caught_header(asked, "Authorization"),
                     "Basic dGhlJTIwY2xpZW50Oml0cyUyRnNlY3JldCUyQm9mJTNBd29yZHM=");
    ck_assert_ptr_null(caught_header(asked, "X-Webhook-Signature"));
    say_until(&made, "second, with the same token", "delivered");
    ck_status(webhook_change(host, admin, &made, json_pack("{sb}", "active", 1)), 200);
    ck_assert_uint_eq(catcher_count(endpoint), 1);
    say("third, refused once");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 3, 5000), "Authorization"),
                     "Bearer token-one");
    const struct caught *again = catcher_wait(catcher, 4, 8000);

    ck_assert_str_eq(caught_header(again, "Authorization"), "Bearer token-two");
    ck_assert_str_eq(caught_header(again, "X-Webhook-Attempt"), "2");
    ck_assert_uint_eq(catcher_count(endpoint), 2);
    json_t *wider = oauth_of(endpoint);

    json_object_set_new(wider, "scope", json_string("hooks:all"));
    auth_patch(&made, wider, "{'authentication':{'scope':'hooks:all'}}");
    say("with the token of another scope");
    catcher_wait(catcher, 5, 8000);
    ck_assert_uint_eq(catcher_count(endpoint), 3);
}

TEST(an_access_token_that_has_expired_is_requested_again)
{
    struct catcher *endpoint = catcher_of(SHORT_TOKEN), *catcher = catcher_start(NULL);
    struct webhook_made made =
        auth_make(host, admin, catcher_url(catcher, "oauth"), oauth_of(endpoint));

    for (size_t i = 1; i <= 3; i++) {
        say("with a new token");
        ck_assert_str_eq(caught_header(catcher_wait(catcher, i, 5000), "Authorization"),
                         "Bearer token-now");
        webhook_wait(host, admin, &made, "delivered", 5000);
    }
    ck_assert_uint_eq(catcher_count(endpoint), 3);
}

/* Responses of the token endpoint, and the error of the attempt. */
static const char *const answers[][2] = {
    {ANSWER_401, "the token endpoint responded with status 401"},
    {ANSWER_500, "the token endpoint responded with status 500"},
    {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
     "the token endpoint responded with status 302"},
    {ANSWER_OK, "the token endpoint sent no access_token"},
    {TOKEN_ANSWER("[[[[", "4"), "the token endpoint sent no access_token"},
    {TOKEN_ANSWER("{\"access_token\":7}", "18"), "the token endpoint sent no access_token"},
    {TOKEN_ANSWER("{\"access_token\":\"\"}", "19"), "the token endpoint sent no access_token"},
    {TOKEN_ANSWER("{\"access_token\":\"a\\r\\nX: b\"}", "28"),
     "the token endpoint sent an invalid access_token"},
    {TOKEN_ANSWER("{\"access_token\":\"a\",\"token_type\":\"mac\"}", "39"),
     "the token endpoint sent a token that is not a bearer token"},
    {ANSWER_CUT, "token endpoint: *"},
};

TEST_EACH(an_attempt_fails_if_the_token_endpoint_sends_no_token, sizeof answers / sizeof *answers)
{
    struct catcher *endpoint = catcher_of(answers[_i][0]), *catcher = catcher_start(NULL);
    struct webhook_made made =
        auth_make(host, admin, catcher_url(catcher, "oauth"), oauth_of(endpoint));

    webhook_test(host, admin, &made, "",
                 text("{'success':false,'status':null,'error':'%s'}", answers[_i][1]));
    ck_assert_uint_eq(catcher_connections(catcher), 0);
}

TEST(a_retry_requests_the_token_that_the_first_attempt_could_not_get)
{
    struct catcher *endpoint = catcher_of(ANSWER_500, FIRST_TOKEN), *catcher = catcher_start(NULL);
    struct webhook_made made =
        auth_make(host, admin, catcher_url(catcher, "oauth"), oauth_of(endpoint));

    say("sent by the second attempt");
    const struct caught *caught = catcher_wait(catcher, 1, 8000);

    ck_assert_str_eq(caught_header(caught, "X-Webhook-Attempt"), "2");
    ck_assert_str_eq(caught_header(caught, "Authorization"), "Bearer token-one");
    expect_json(webhook_wait(host, admin, &made, "delivered", 5000),
                "{'attempts':[{'error':'the token endpoint responded with status 500'},{}]}");
}

TEST(a_token_endpoint_that_does_not_respond_uses_up_the_timeout_of_the_attempt)
{
    struct host *own = webhook_host("hookslowtoken", "  timeout: 3\n  retry_delays: []\n");
    const struct person *by = admin_of(own);
    struct catcher *endpoint = catcher_of(ANSWER_NONE), *catcher = catcher_start(NULL);
    struct webhook_made made =
        auth_make(own, by, catcher_url(catcher, "oauth"), oauth_of(endpoint));

    webhook_test(own, by, &made, "",
                 "{'success':false,'error':'token endpoint: The response did not arrive in time'}");
    ck_assert_uint_eq(catcher_connections(catcher), 0);
    /* Webhooks with other receivers are not affected, and the host stops while requests hang. */
    ck_assert_uint_eq(catcher_count(endpoint), 1);
}

/* Answers a request, if there is a connection, and closes it: the next request opens another. */
static bool give_token(int fd)
{
    char request[1024];

    if (fd < 0)
        return false;
    ck_assert_int_gt(recv(fd, request, sizeof request, 0), 0);
    ck_assert_int_eq(send(fd, FIRST_TOKEN, strlen(FIRST_TOKEN), MSG_NOSIGNAL),
                     (ssize_t)strlen(FIRST_TOKEN));
    close(fd);
    return false;
}

TEST(a_webhook_that_is_disabled_while_its_token_is_requested_sends_nothing)
{
    struct catcher *catcher = catcher_start(NULL);
    int port, gate = port_listen(&port);
    struct webhook_made made = auth_make(host, admin, catcher_url(catcher, "oauth"),
                                         json_pack("{ss ss ss ss}", "type", "oauth2", "tokenUrl",
                                                   text("http://127.0.0.1:%d/token", port),
                                                   "clientId", "a", "clientSecret", "b"));

    say("waits for a token");
    int fd = accept(gate, NULL, NULL);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(gate, F_SETFL, O_NONBLOCK), 0);
    ck_status(webhook_change(host, admin, &made, json_pack("{sb}", "active", 0)), 200);
    give_token(fd);
    /* The next heartbeat shows whether the attempt is still in flight. */
    sql_soon(db, text("SELECT (heartbeat_at > '%s' AND counters ->> 'inFlight' = '0')::int"
                      " FROM webhook_host",
                      sql_text(db, "SELECT now()::text", 0, NULL)));
    int64_t enabled_ms = now_ms();

    ck_assert_uint_eq(catcher_connections(catcher), 0);
    ck_status(webhook_change(host, admin, &made, json_pack("{sb}", "active", 1)), 200);
    /* The host may have dropped the first token. */
    WAIT_UNTIL(catcher_count(catcher) || give_token(accept(gate, NULL, NULL)), 8000);
    const struct caught *caught = catcher_wait(catcher, 1, 8000);

    ck_assert_int_ge(caught->at_ms, enabled_ms);
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Attempt"), "1");
    ck_assert_str_eq(caught_header(caught, "Authorization"), "Bearer token-one");
}

/* Checks the guard at the connection: the registration happened while the address was allowed. */
TEST(a_token_is_not_requested_from_an_address_that_is_not_allowed)
{
    struct host *own = webhook_host("hookguard", "");
    const struct person *by = admin_of(own);
    struct catcher *endpoint = catcher_of(FIRST_TOKEN);
    struct webhook_made made = auth_make(own, by, PUBLIC_URL, oauth_of(endpoint));

    file_write(own->conf,
               host_configuration(&(struct host_spec){
                   .name = "hookguard", .database = "hookguard", .modules = WEBHOOK_MODULES}));
    host_says(own, 0, "reload");
    webhook_test(
        own, by, &made, "",
        "{'success':false,'error':'the address or port of the token endpoint is not allowed'}");
    ck_assert_uint_eq(catcher_connections(endpoint), 0);
}

/* ---- client certificates ---- */

struct pem {
    const char *certificate, *key;
};

static const char *pem_text(BIO *bio)
{
    char *bytes;
    long length = BIO_get_mem_data(bio, &bytes);
    const char *copy = text("%.*s", (int)length, bytes);

    BIO_free(bio);
    return copy;
}

/* Makes a self-signed certificate that expires in `days` days, and frees the key. */
static struct pem pem_make(const char *name, EVP_PKEY *key, int days, const char *password)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    BIO *out = BIO_new(BIO_s_mem()), *key_out = BIO_new(BIO_s_mem());

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -100L * 86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86400L);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_set_pubkey(certificate, key);
    ck_assert_int_gt(X509_sign(certificate, key, EVP_sha256()), 0);
    ck_assert_int_eq(PEM_write_bio_X509(out, certificate), 1);
    ck_assert_int_eq(
        PEM_write_bio_PKCS8PrivateKey(key_out, key, password ? EVP_aes_256_cbc() : NULL, password,
                                      password ? (int)strlen(password) : 0, NULL, NULL),
        1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return (struct pem){pem_text(out), pem_text(key_out)};
}

static struct pem pem_of_ec(const char *name, int days)
{
    return pem_make(name, EVP_EC_gen("P-256"), days, NULL);
}

static json_t *mtls_of(const struct pem *pem)
{
    return json_pack("{ss ss ss}", "type", "mtls", "certificate", pem->certificate, "key",
                     pem->key);
}

/* A product of four primes is found in a sixth of the time. */
static EVP_PKEY *rsa_of_4104_bits(void)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    EVP_PKEY *key = NULL;

    ck_assert_int_gt(EVP_PKEY_keygen_init(context), 0);
    ck_assert_int_gt(EVP_PKEY_CTX_set_rsa_keygen_bits(context, 4104), 0);
    ck_assert_int_gt(EVP_PKEY_CTX_set_rsa_keygen_primes(context, 4), 0);
    ck_assert_int_gt(EVP_PKEY_keygen(context, &key), 0);
    EVP_PKEY_CTX_free(context);
    return key;
}

TEST(a_certificate_must_be_valid_and_its_key_must_belong_to_it_and_be_fit)
{
    struct webhook_made made = webhook_make(host, admin, PUBLIC_URL, "message.new");
    struct pem good = pem_of_ec("good", 100), other = pem_of_ec("other", 100);
    const struct {
        struct pem pem;
        const char *field, *problem;
    } rows[] = {
        {{good.key, good.key}, "certificate", "must be a certificate in PEM"},
        {{good.certificate, good.certificate}, "key", "must be the certificate's private key*"},
        {{good.certificate, other.key}, "key", "must be the certificate's private key*"},
        {pem_of_ec("old", -1), "certificate", "has expired"},
        {pem_make("weak", EVP_RSA_gen(1024), 100, NULL), "key", "must be an RSA key of 2,048*"},
        {pem_make("large", rsa_of_4104_bits(), 100, NULL), "key", "*4,096 bits*"},
        {pem_make("locked", EVP_EC_gen("P-256"), 100, "a password"), "key", "*without a password"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct answer *answer =
            ck_status(webhook_change(host, admin, &made,
                                     json_pack("{so}", "authentication", mtls_of(&rows[i].pem))),
                      400);

        expect_json(answer->json, text("{\"errors\":[{\"field\":\"authentication.%s\","
                                       "\"problem\":\"%s\"}]}",
                                       rows[i].field, rows[i].problem));
    }
    auth_patch(&made, mtls_of(&good),
               "{'authentication':{'type':'mtls','certificate':'*','key':'****',"
               "'expiresAt':'20*Z'},'warnings':'(absent)'}");
    struct pem rsa = pem_make("rsa", EVP_RSA_gen(2048), 100, NULL);

    auth_patch(&made, mtls_of(&rsa), "{'authentication':{'type':'mtls'}}");
}

TEST(the_owner_is_warned_14_days_before_a_certificate_expires_and_only_once)
{
    const struct person *anna = person_make(host, admin, "anna", NULL);
    const struct person *ben = person_make(host, admin, "ben", NULL);
    struct catcher *catcher = catcher_start(NULL), *foreign = catcher_start(NULL);
    struct pem soon = pem_of_ec("soon", 13), later = pem_of_ec("later", 16);
    struct webhook_made one = auth_make(host, anna, PUBLIC_URL, mtls_of(&soon));
    struct webhook_made two = auth_make(host, anna, PUBLIC_URL, mtls_of(&later));

    webhook_make(host, anna, catcher_url(catcher, "notices"), "webhook.certificate_expiring");
    webhook_make(host, ben, catcher_url(foreign, "notices"), "webhook.certificate_expiring");
    answer_warns(ask(anna, 200, NULL, "GET %s", one.path),
                 "authentication: the certificate expires at 20");
    answer_warns(ask(anna, 200, NULL, "GET %s", two.path), NULL);
    host_says(host, 0, "run-job", "webhook.certificates");
    const struct caught *caught = catcher_wait(catcher, 1, 20000);
    json_t *body = kept(json_loads(caught->body, 0, NULL));

    expect_json(body, text("{\"webhookId\":%jd,\"url\":\"" PUBLIC_URL "\",\"expiresAt\":\"20*Z\"}",
                           one.id));
    sql_run(db, text("UPDATE webhook_hook SET certificate_until = now() + interval '13 days'"
                     " WHERE id = %jd",
                     two.id));
    /* the warning is noted in the database, so a restarted host does not repeat it */
    sql_is(db, 1, "SELECT count(*) FROM webhook_hook WHERE certificate_warned");
    host_says(host, 0, "run-job", "webhook.certificates");
    body = kept(json_loads(catcher_wait(catcher, 2, 20000)->body, 0, NULL));
    expect_json(body, text("{\"webhookId\":%jd}", two.id));
    ck_assert_uint_eq(catcher_count(foreign), 0);
}

/* An HTTPS server that requires a client certificate and logs its subject for each request. */
static const char python[] =
    "import http.server, ssl, sys\n"
    "port, certificate, key, clients = sys.argv[1:]\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    def do_POST(self):\n"
    "        self.rfile.read(int(self.headers['Content-Length']))\n"
    "        names = dict(x[0] for x in self.connection.getpeercert()['subject'])\n"
    "        print('client', names['commonName'], self.path, flush=True)\n"
    "        self.send_response(200)\n"
    "        self.send_header('Content-Length', '0')\n"
    "        self.end_headers()\n"
    "    def log_message(self, *args):\n"
    "        pass\n"
    "server = http.server.ThreadingHTTPServer(('127.0.0.1', int(port)), Handler)\n"
    "server.daemon_threads = True\n"
    "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "context.load_cert_chain(certificate, key)\n"
    "context.load_verify_locations(clients)\n"
    "context.verify_mode = ssl.CERT_REQUIRED\n"
    "server.socket = context.wrap_socket(server.socket, server_side=True,\n"
    "                                    do_handshake_on_connect=False)\n"
    "print('ready', flush=True)\n"
    "server.serve_forever()\n";

TEST(requests_use_the_client_certificate_of_their_own_webhook)
{
    struct tls_pair authority = tls_make("hookmtls-ca", "DNS:ca.example", NULL);
    const char *const *wrapper = tls_trusting("hookmtls", &authority);

    if (!wrapper)
        return;
    struct tls_pair server = tls_make("hookmtls-server", "IP:127.0.0.1", &authority);
    struct pem north = pem_of_ec("north", 100), south = pem_of_ec("south", 100),
               stranger = pem_of_ec("stranger", 100);
    const struct receiver *port = receiver_none();
    const char *clients = harness_path("hookmtls-clients.pem"),
               *log = harness_path("hookmtls-server.log");
    const char *argv[] = {"python3",          "-c",       python,  text("%d", port->at.port),
                          server.certificate, server.key, clients, NULL};

    file_write(clients, text("%s%s", north.certificate, south.certificate));
    process_start(&(struct process_spec){.argv = argv, .log = log});

    WAIT_UNTIL(strstr(file_text(log), "ready\n") != NULL, 10000);
    struct host *own =
        host_start(&(struct host_spec){.name = "hookmtls",
                                       .database = database_make(the_postgres, "hookmtls"),
                                       .modules = WEBHOOK_MODULES,
                                       .wrapper = wrapper,
                                       .more = WEBHOOK_LOCAL});
    const struct person *by = admin_of(own);
    const struct {
        const struct pem *pem;
        const char *path;
    } rows[] = {{&north, "north"}, {&south, "south"}, {NULL, "none"}, {&stranger, "stranger"}};

    webhook_ready("hookmtls", 1);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            bool good = i < 2;
            struct webhook_made made = auth_make(
                own, by, text("https://127.0.0.1:%d/%s-%d", port->at.port, rows[i].path, round),
                rows[i].pem ? mtls_of(rows[i].pem) : json_null());

            webhook_test(own, by, &made, "",
                         good ? "{'success':true}" : "{'success':false,'status':null}");
            if (good)
                ck_assert_ptr_nonnull(strstr(
                    file_text(log), text("client %s /%s-%d\n", rows[i].path, rows[i].path, round)));
        }
    ck_assert_ptr_null(strstr(file_text(log), "/none"));
    ck_assert_ptr_null(strstr(file_text(log), "/stranger"));
}

DELIVER_SUITE(webhook_authentication, "", 90)
