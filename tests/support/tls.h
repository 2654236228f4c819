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

/*
 * Returns the wrapper (struct host_spec) of a host on a system that trusts only this authority, or
 * NULL after test_skipped() if none can be made: a private mount needs root, or user namespaces.
 */
const char *const *tls_trusting(const char *name, const struct tls_pair *authority);

#endif
