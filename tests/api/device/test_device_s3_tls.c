/*
 * A bucket with TLS: which certificates a host accepts, and that it does not follow redirects of an
 * accepted server.
 */
#include "s3.h"

static struct tls_pair ours, others; /* authorities: the server's, and an unrelated one */

/* `authority`: the host accepts certificates of this authority; NULL: of the authorities that the
 * system trusts. */
static const char *settings(const struct tls_pair *authority)
{
    return text("  s3_secret_key: " BUCKET_SECRET_KEY "\n  s3_timeout: 40000\n%s",
                authority ? text("  s3_ca: \"%s\"\n", authority->certificate) : "");
}

static void set_up(void)
{
    struct bucket *behind_tls = bucket_make("device_s3_tls", true);

    ours = tls_make("tls-ours", "DNS:ours.example", NULL);
    others = tls_make("tls-others", "DNS:others.example", NULL);
    struct tls_pair server = tls_make("tls-server", "IP:127.0.0.1", &ours);

    bucket_encrypt(behind_tls, &server);
    s3_open_on("device_s3_tls", behind_tls, settings(&ours));
}

TEST(documents_are_stored_if_the_certificate_authority_is_configured)
{
    char *bytes = upload_noise(90, 3 * MIB);
    struct answer *made = ck_status(s3_post(host, "Known", bytes, 3 * MIB), 201);

    ck_assert_int_eq(bucket_objects(bucket), 1);
    for (int i = 0; i < 3; i++) { /* the connection is reused */
        struct answer *file = ck_status(s3_get(i ? other : host, s3_path(made, 0)), 200);

        ck_assert_uint_eq(file->length, 3 * MIB);
        ck_assert_mem_eq(file->body, bytes, 3 * MIB);
    }
}

TEST(a_certificate_of_an_unknown_authority_is_refused)
{
    s3_refuses_uploads(s3_host("s3-system", bucket, settings(NULL)), "SSL certificate problem");
    s3_refuses_uploads(s3_host("s3-others", bucket, settings(&others)), "SSL certificate problem");
}

TEST(a_certificate_for_another_host_is_refused)
{
    struct bucket elsewhere = *bucket;

    elsewhere.endpoint = text("https://localhost:%d/", bucket->tls_port);
    s3_refuses_uploads(s3_host("s3-elsewhere", &elsewhere, settings(&ours)),
                       "no alternative certificate subject name matches");
}

/* Returns a host on a system that trusts the server's authority, or NULL if none can be made. */
static struct host *trusting(const char *name, const char *more)
{
    const char *const *wrapper = tls_trusting(name, &ours);

    return wrapper ? host_start(
                         &(struct host_spec){.name = name,
                                             .database = s3_database,
                                             .modules = "[auth, device, health]",
                                             .wrapper = wrapper,
                                             .more = bucket_section(bucket, s3_spool(name), more)})
                   : NULL;
}

TEST(the_systems_authorities_count_without_a_configured_file)
{
    host = trusting("s3-trusting", settings(NULL));
    if (host)
        ck_status(s3_post(host, "Trusted", "1", 1), 201);
}

TEST(the_systems_authorities_do_not_count_with_a_configured_file)
{
    host = trusting("s3-choosy", settings(&others));
    if (host)
        s3_refuses_uploads(host, "SSL certificate problem");
}

/* If the host followed, the server would store and return the documents over plain HTTP. */
TEST(a_redirect_of_the_s3_server_is_not_followed)
{
    const char *path = s3_path(ck_status(s3_post(host, "Stays", "content", 7), 201), 0);
    int before = bucket_objects(bucket);

    bucket_mode(bucket, "redirect");
    s3_expect_refused(s3_get(other, path));
    ck_assert_int_eq(bucket_count(bucket), 1);
    s3_expect_refused(s3_post(other, "Redirected", "another", 7));
    bucket_mode(bucket, "pass");
    ck_assert_int_eq(bucket_objects(bucket), before);
    ck_error(s3_get(host, DEVICE "/Redirected"), 404, "");
    host_logs(other, 0, "PUT: status 307");
}

SUITE(device_s3_tls, .timeout_s = 120, .before_all = set_up, .after_all = s3_close)
