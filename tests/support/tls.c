#include "tls.h"

#include "harness.h"

struct tls_pair tls_make(const char *name, const char *alt_names, const struct tls_pair *by)
{
    struct tls_pair pair = {harness_path(text("%s.key", name)), harness_path(text("%s.crt", name))};
    const char *const argv[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "rsa:2048",
                                "-nodes",
                                "-days",
                                "1",
                                "-keyout",
                                pair.key,
                                "-out",
                                pair.certificate,
                                "-subj",
                                text("/CN=%s", name),
                                "-addext",
                                text("subjectAltName=%s", alt_names),
                                by ? "-CA" : NULL,
                                by ? by->certificate : NULL,
                                "-CAkey",
                                by ? by->key : NULL,
                                NULL};
    const char *log = harness_path(text("%s.tls.log", name));

    ck_assert_msg(process_run(&(struct process_spec){.argv = argv, .log = log}) == 0, "%s",
                  file_text(log));
    return pair;
}
