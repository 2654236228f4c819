/*
 * Who gets what from which route: see test_matrix.c. A new route gets a row here. The rows that end
 * sessions come last, and of these the one that ends everybody's.
 */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include <stdbool.h>

/* "pending" and "suspended" have a token from before; "client" is a token of an ApiUser's client.
 */
enum actor {
    NOBODY,
    PENDING,
    SUSPENDED,
    USER,
    BUYER,
    DEVICE_OWNER,
    ORGANIZATION_ADMIN,
    API_USER,
    CLIENT,
    ADMIN,
    ACTORS
};

struct matrix_row {
    const char *method, *path;
    int status[ACTORS];
    bool ends_session; /* of the caller, where it succeeds */
};

// clang-format off
static const struct matrix_row matrix[] = {
    /*
      nobody pend susp User Buyr DevO OrgA ApiU clnt Admin
    */
    {"GET", "/api/health",
     {200, 200, 200, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/health/ready",
     {200, 200, 200, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/health/status",
     {200, 200, 200, 200, 200, 200, 200, 200, 200, 200}, false},
    {"POST", "/api/user/register",
     {400, 400, 400, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/auth/login",
     {400, 400, 400, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/auth/getAccess",
     {400, 400, 400, 400, 400, 400, 400, 400, 400, 400}, false},
    {"PUT", "/api/user/password",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"GET", "/api/auth/me",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"POST", "/api/auth/clients",
     {401, 403, 403, 403, 403, 403, 403, 201, 403, 403}, false},
    {"GET", "/api/auth/clients",
     {401, 403, 403, 403, 403, 403, 403, 200, 200, 403}, false},
    {"DELETE", "/api/auth/clients/:id",
     {401, 403, 403, 403, 403, 403, 403, 404, 403, 403}, false},
    {"POST", "/api/organization",
     {401, 403, 403, 403, 403, 403, 403, 400, 400, 403}, false},
    {"GET", "/api/admin/organizations",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 200}, false},
    {"PUT", "/api/admin/organizations/:id",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 400}, false},
    {"GET", "/api/admin/users",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 200}, false},
    {"GET", "/api/admin/users/:id",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 404}, false},
    {"PUT", "/api/admin/users/:id",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 404}, false},
    {"GET", "/api/chat/conversations/user/:email",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"POST", "/api/chat/conversations/find",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"POST", "/api/chat/conversations/start",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/chat/conversations/:id/messages",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"PATCH", "/api/chat/conversations/:id/read",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/chat/conversations/:id/share",
     {401, 403, 403, 403, 403, 403, 404, 404, 404, 404}, false},
    {"GET", "/api/chat/chain/:headUuid",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/chat/unread-count/:email",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/chat/unread-devices/:email",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/chat/stream", /* with a Last-Event-ID that is none */
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/device",
     {401, 403, 403, 403, 403, 403, 400, 400, 400, 403}, false},
    {"GET", "/api/device",
     {401, 403, 403, 403, 403, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/device/:externalId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"PATCH", "/api/device/:externalId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"PATCH", "/api/device/by-site/:siteName",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/device/:externalId/documents",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/device/:externalId/documents/:documentId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"DELETE", "/api/device/:externalId/documents/:documentId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/meter-reads/new/:externalId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/meter-reads/new/:externalId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/meter-reads/latestread/:externalId",
     {401, 403, 403, 403, 403, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/device-group",
     {401, 403, 403, 403, 403, 400, 400, 400, 400, 400}, false},
    {"GET", "/api/device-group",
     {401, 403, 403, 403, 403, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/certificate-log",
     {401, 403, 403, 403, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/certificate-log/issuer/certifiedlogOfdevices",
     {401, 403, 403, 403, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/certificate-log/export.csv",
     {401, 403, 403, 403, 200, 200, 200, 200, 200, 200}, false},
    {"PATCH", "/api/certificate-log/:id",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/chat/webhooks",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"GET", "/api/chat/webhooks",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/chat/webhooks/events",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, false},
    {"GET", "/api/chat/webhooks/:id",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"PATCH", "/api/chat/webhooks/:id",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"DELETE", "/api/chat/webhooks/:id",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/chat/webhooks/:id/test",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/chat/webhooks/:id/rotate-secret",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"GET", "/api/chat/webhooks/:id/deliveries",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/chat/webhooks/:id/deliveries/:deliveryId/resend",
     {401, 403, 403, 404, 404, 404, 404, 404, 404, 404}, false},
    {"POST", "/api/chat/webhooks/:id/recover",
     {401, 403, 403, 400, 400, 400, 400, 400, 400, 400}, false},
    {"POST", "/api/auth/logout",
     {401, 403, 403, 200, 200, 200, 200, 200, 200, 200}, true},
    {"POST", "/api/admin/rotate-secret",
     {401, 403, 403, 403, 403, 403, 403, 403, 403, 200}, true},
};
// clang-format on

#endif
