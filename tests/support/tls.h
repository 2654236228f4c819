/* Keys and certificates for TLS servers, made by the program openssl. */
#ifndef TESTS_TLS_H
#define TESTS_TLS_H

/* PEM files. */
struct tls_pair {
    const char *key, *certificate;
};

/*
 * Makes a key and its certificate for these subjectAltNames, such as "IP:127.0.0.1", valid for a
 * day. `by` signs it; NULL: it is self-signed. `name` is the name of the files and of the subject.
 */
struct tls_pair tls_make(const char *name, const char *alt_names, const struct tls_pair *by);

#endif
