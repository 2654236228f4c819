/*
 * TLS of the receiver. Each address of the machine has a separate certificate, which is made for
 * the first client that connects to it, and signed by the authority whose key and certificate are
 * in one file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "receiver.h"

#define DAY 86400
#define TEXT 64

struct leaf {
    struct leaf *next;
    char address[TEXT];
    X509 *certificate;
};

static SSL_CTX *context;
static EVP_PKEY *authority_key, *leaf_key;
static X509 *authority;
static struct leaf *leaves;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "receiver: TLS: %s failed\n", what);
    exit(1);
}

static void read_authority(const char *name)
{
    FILE *file = fopen(name, "r");

    need(file != NULL, name);
    authority_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    rewind(file);
    authority = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    need(authority_key && authority, "reading the authority");
}

void tls_set_up(const char *authority_file)
{
    read_authority(authority_file);
    leaf_key = EVP_EC_gen("P-256");
    context = SSL_CTX_new(TLS_server_method());
    need(leaf_key && context, "SSL_CTX_new");
}

/* Writes "IP:…" with the local address of the socket. */
static void own_address(int fd, char text[TEXT])
{
    struct sockaddr_in6 at = {0};
    socklen_t length = sizeof(at);
    char address[INET6_ADDRSTRLEN] = "";

    if (getsockname(fd, (struct sockaddr *)(void *)&at, &length) == 0 &&
        IN6_IS_ADDR_V4MAPPED(&at.sin6_addr))
        inet_ntop(AF_INET, &at.sin6_addr.s6_addr[12], address, sizeof(address));
    else
        inet_ntop(AF_INET6, &at.sin6_addr, address, sizeof(address));
    snprintf(text, TEXT, "IP:%s", address);
}

static X509 *make_certificate(const char *address)
{
    static long serial = 1000;
    X509 *made = X509_new();
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, address);

    need(made && names, "making a certificate");
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made), -DAY);
    X509_gmtime_adj(X509_getm_notAfter(made), DAY);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               (const unsigned char *)address, -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(authority));
    X509_set_pubkey(made, leaf_key);
    X509_add_ext(made, names, -1);
    need(X509_sign(made, authority_key, EVP_sha256()) > 0, "signing a certificate");
    X509_EXTENSION_free(names);
    return made;
}

static X509 *certificate_for(int fd)
{
    char address[TEXT];
    struct leaf *leaf = leaves;

    own_address(fd, address);
    while (leaf && strcmp(leaf->address, address))
        leaf = leaf->next;
    if (leaf)
        return leaf->certificate;
    leaf = calloc(1, sizeof(*leaf));
    need(leaf != NULL, "memory");
    snprintf(leaf->address, sizeof(leaf->address), "%s", address);
    leaf->certificate = make_certificate(address);
    leaf->next = leaves;
    leaves = leaf;
    return leaf->certificate;
}

SSL *tls_accept(int fd)
{
    SSL *tls = SSL_new(context);

    need(tls && SSL_set_fd(tls, fd) == 1 && SSL_use_certificate(tls, certificate_for(fd)) == 1 &&
             SSL_use_PrivateKey(tls, leaf_key) == 1,
         "SSL_new");
    SSL_set_accept_state(tls);
    return tls;
}

void tls_free(SSL *tls)
{
    SSL_free(tls);
}

/* Converts the result of OpenSSL to the result and errno of recv() and send(). */
static ssize_t result(SSL *tls, int done)
{
    int why = done > 0 ? SSL_ERROR_NONE : SSL_get_error(tls, done);

    if (why == SSL_ERROR_NONE)
        return done;
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

static int bounded(size_t length)
{
    return length > INT_MAX ? INT_MAX : (int)length;
}

ssize_t tls_recv(SSL *tls, void *bytes, size_t length)
{
    bool before = SSL_is_init_finished(tls) != 0;

    ERR_clear_error();
    ssize_t got = result(tls, SSL_read(tls, bytes, bounded(length)));

    if (!before && SSL_is_init_finished(tls))
        stats_shaken(SSL_session_reused(tls) != 0);
    return got;
}

ssize_t tls_send(SSL *tls, const void *bytes, size_t length)
{
    ERR_clear_error();
    return result(tls, SSL_write(tls, bytes, bounded(length)));
}
