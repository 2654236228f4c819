#include "tls.h"

#include <sys/stat.h>

#include "harness.h"

struct tls_pair tls_make(const char *name, const char *alt_names, const struct tls_pair *by)
{
    struct tls_pair pair = {harness_path(text("%s.key", name)), harness_path(text("%s.crt", name))};
    const char *const *argv =
        words("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
              " -keyout %s -out %s -subj /CN=%s -addext subjectAltName=%s%s",
              pair.key, pair.certificate, name, alt_names,
              by ? text(" -CA %s -CAkey %s", by->certificate, by->key) : "");
    const char *log = harness_path(text("%s.tls.log", name));

    ck_assert_msg(process_run(&(struct process_spec){.argv = argv, .log = log}) == 0, "%s",
                  file_text(log));
    return pair;
}

const char *const *tls_trusting(const char *name, const struct tls_pair *authority)
{
    static const char *const own[] = {"unshare", "-rm", "true", NULL};
    const char *store = harness_path(text("%s.certs", name));

    if (geteuid() && process_run(&(struct process_spec){.argv = own, .log = "/dev/null"})) {
        test_skipped("this needs root, or user namespaces");
        return NULL;
    }
    ck_assert_int_eq(mkdir(store, 0755), 0);
    ck_assert_int_eq(system(text("cp %s %s/ca-certificates.crt && openssl rehash %s",
                                 authority->certificate, store, store)),
                     0);
    return word_list("unshare", geteuid() ? "-rm" : "-m", "sh", "-c",
                     text("mount --bind %s /etc/ssl/certs && exec \"$@\"", store), "sh");
}
