/* Keys and certificates for servers that speak TLS, made by the program openssl. */
#ifndef TESTS_TLS_H
#define TESTS_TLS_H

/* Files in PEM. */
struct tls_pair {
    const char *key, *certificate;
};

/*
 * A key and its certificate for these subjectAltNames, as "IP:127.0.0.1", good for a day. Signed by
 * `by`; NULL: by itself. `name` is that of the files, and the subject's.
 */
struct tls_pair tls_make(const char *name, const char *alt_names, const struct tls_pair *by);

#endif
