#include "tls.h"

#include "harness.h"

struct tls_pair tls_make(const char *name, const char *alt_names, const struct tls_pair *by)
{
    struct tls_pair pair = {harness_path(text("%s.key", name)), harness_path(text("%s.crt", name))};
    const char *const *argv =
        words("openssl req -x509 -newkey rsa:2048 -nodes -days 1 -keyout %s -out %s -subj /CN=%s"
              " -addext subjectAltName=%s%s",
              pair.key, pair.certificate, name, alt_names,
              by ? text(" -CA %s -CAkey %s", by->certificate, by->key) : "");
    const char *log = harness_path(text("%s.tls.log", name));

    ck_assert_msg(process_run(&(struct process_spec){.argv = argv, .log = log}) == 0, "%s",
                  file_text(log));
    return pair;
}
