/*
 * The access matrix: which role gets which status from which route; see test_matrix.c. A new route
 * gets a row here. Rows that end sessions come last; the row that ends everybody's session is the
 * very last.
 */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

/* "pending" and "suspended" have a token from before their status changed; "client" is a token of
 * an ApiUser's client.
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
};

// clang-format off
/* The callers that get the status; all others get a 401 without a token and a 403 with one. */
#define EVERYBODY(s) {s, s, s, s, s, s, s, s, s, s}
#define ALL_ROLES(s) {401, 403, 403, s, s, s, s, s, s, s}
#define BUYERS(s) {401, 403, 403, 403, s, s, s, s, s, s}
#define OWNERS(s) {401, 403, 403, 403, 403, s, s, s, s, s}
#define SHARERS(s) {401, 403, 403, 403, 403, 403, s, s, s, s}
#define REGISTRARS(s) {401, 403, 403, 403, 403, 403, s, s, s, 403}
#define PLATFORMS(s, client) {401, 403, 403, 403, 403, 403, 403, s, client, 403}
#define ADMINS(s) {401, 403, 403, 403, 403, 403, 403, 403, 403, s}

static const struct matrix_row matrix[] = {
    {"GET", "/api/health", EVERYBODY(200)},
    {"GET", "/api/health/ready", EVERYBODY(200)},
    {"GET", "/api/health/status", EVERYBODY(200)},
    {"GET", "/", EVERYBODY(302)},
    {"GET", "/console", EVERYBODY(404)},
    {"GET", "/console/assets/:file", EVERYBODY(404)},
    {"GET", "/console/settings", ALL_ROLES(200)},
    {"GET", "/console/about", EVERYBODY(200)},
    {"GET", "/swagger-json", EVERYBODY(200)},
    {"GET", "/openapi.json", EVERYBODY(200)},
    {"GET", "/openapi.yaml", EVERYBODY(200)},
    {"GET", "/swagger", EVERYBODY(404)},
    {"GET", "/swagger/assets/:file", EVERYBODY(404)},
    {"POST", "/api/user/register", EVERYBODY(400)},
    {"POST", "/api/user/password/reset-request", EVERYBODY(400)},
    {"POST", "/api/user/password/reset", EVERYBODY(400)},
    {"POST", "/api/user/email/confirm-request", EVERYBODY(400)},
    {"POST", "/api/user/email/confirm", EVERYBODY(400)},
    {"POST", "/api/auth/login", EVERYBODY(400)},
    {"POST", "/api/auth/getAccess", EVERYBODY(400)},
    {"POST", "/api/auth/refresh", EVERYBODY(204)},
    {"PUT", "/api/user/password", ALL_ROLES(400)},
    {"GET", "/api/auth/me", ALL_ROLES(200)},
    {"PATCH", "/api/auth/me", {401, 403, 403, 200, 200, 200, 200, 200, 403, 200}},
    {"GET", "/api/auth/sessions", ALL_ROLES(200)},
    {"POST", "/api/auth/clients", PLATFORMS(201, 403)},
    {"GET", "/api/auth/clients", PLATFORMS(200, 200)},
    {"PATCH", "/api/auth/clients/:id", PLATFORMS(404, 403)},
    {"POST", "/api/auth/clients/:id/rotate-secret", PLATFORMS(404, 403)},
    {"DELETE", "/api/auth/clients/:id", PLATFORMS(404, 403)},
    {"POST", "/api/organization", PLATFORMS(400, 400)},
    {"GET", "/api/organization/members", {401, 403, 403, 403, 403, 403, 200, 403, 403, 403}},
    {"POST", "/api/organization/invitations", {401, 403, 403, 403, 403, 403, 400, 403, 403, 403}},
    {"GET", "/api/admin/audit-log", ADMINS(200)},
    {"GET", "/api/admin/audit-log/export.csv", ADMINS(200)},
    {"GET", "/api/admin/organizations", ADMINS(200)},
    {"PUT", "/api/admin/organizations/:id", ADMINS(400)},
    {"GET", "/api/admin/users", ADMINS(200)},
    {"GET", "/api/admin/users/:id", ADMINS(404)},
    {"PUT", "/api/admin/users/:id", ADMINS(404)},
    {"POST", "/api/admin/users", ADMINS(400)},
    {"GET", "/api/chat/conversations/user/:email", ALL_ROLES(200)},
    {"GET", "/api/chat/conversations", ALL_ROLES(200)},
    {"GET", "/api/chat/search", ALL_ROLES(400)},
    {"POST", "/api/chat/conversations/find", ALL_ROLES(200)},
    {"POST", "/api/chat/conversations/start", ALL_ROLES(400)},
    {"POST", "/api/chat/conversations/:id/messages", ALL_ROLES(400)},
    {"POST", "/api/chat/conversations/:id/attachments", ALL_ROLES(400)},
    {"GET", "/api/chat/conversations/:id/attachments/:attachmentId", ALL_ROLES(404)},
    {"POST", "/api/chat/conversations/:id/typing", ALL_ROLES(400)},
    {"PATCH", "/api/chat/conversations/:id/read", ALL_ROLES(400)},
    {"POST", "/api/chat/conversations/:id/share", SHARERS(404)},
    {"POST", "/api/chat/conversations/:id/close", SHARERS(404)},
    {"POST", "/api/chat/conversations/:id/reopen", SHARERS(404)},
    {"GET", "/api/chat/chain/:headUuid", ALL_ROLES(404)},
    {"GET", "/api/chat/unread-count/:email", ALL_ROLES(200)},
    {"GET", "/api/chat/unread-devices/:email", ALL_ROLES(200)},
    {"GET", "/api/chat/stream", ALL_ROLES(400)}, /* with an invalid Last-Event-ID */
    {"POST", "/api/device", REGISTRARS(400)},
    {"GET", "/api/device", OWNERS(200)},
    {"GET", "/api/device/my", OWNERS(200)},
    {"GET", "/api/device/externalId/:externalId", OWNERS(404)},
    {"GET", "/api/device/:externalId", OWNERS(404)},
    {"PATCH", "/api/device/:externalId", OWNERS(404)},
    {"DELETE", "/api/device/:externalId", OWNERS(404)},
    {"PATCH", "/api/device/by-site/:siteName", OWNERS(404)},
    {"GET", "/api/device/:externalId/documents", OWNERS(404)},
    {"GET", "/api/device/:externalId/documents/:documentId", OWNERS(404)},
    {"PATCH", "/api/device/:externalId/documents/:documentId", OWNERS(400)},
    {"DELETE", "/api/device/:externalId/documents/:documentId", OWNERS(404)},
    {"GET", "/api/admin/device-duplicates", ADMINS(200)},
    {"GET", "/api/reference/countries", ALL_ROLES(200)},
    {"GET", "/api/reference/fuel-codes", ALL_ROLES(200)},
    {"GET", "/api/reference/device-types", ALL_ROLES(200)},
    {"GET", "/api/reference/time-zones", ALL_ROLES(200)},
    {"POST", "/api/meter-reads/new/:externalId", OWNERS(404)},
    {"POST", "/api/meter-reads/addByAdmin/new/:externalId", OWNERS(404)},
    {"POST", "/api/meter-reads/:externalId", OWNERS(404)},
    {"GET", "/api/meter-reads/new/:externalId", OWNERS(404)},
    {"DELETE", "/api/meter-reads/new/:externalId/:readingId", OWNERS(400)},
    {"GET", "/api/meter-reads/new/:externalId/export.csv", OWNERS(404)},
    {"GET", "/api/meter-reads/new/:externalId/totals", OWNERS(404)},
    {"GET", "/api/meter-reads/refused", OWNERS(200)},
    {"GET", "/api/meter-reads/latestread/:externalId", OWNERS(404)},
    {"GET", "/api/meter-reads/latestread", OWNERS(400)},
    {"POST", "/api/bulk-upload", REGISTRARS(400)}, /* of devices, without a file */
    {"GET", "/api/bulk-upload", ALL_ROLES(200)},
    {"GET", "/api/bulk-upload/template.csv", ALL_ROLES(200)},
    {"POST", "/api/bulk-upload/:bulkUploadId/confirm", ALL_ROLES(404)},
    {"POST", "/api/bulk-upload/:bulkUploadId/cancel", ALL_ROLES(404)},
    {"DELETE", "/api/bulk-upload/:bulkUploadId", ALL_ROLES(404)},
    {"GET", "/api/bulk-upload/:bulkUploadId/stream", ALL_ROLES(404)},
    {"GET", "/api/bulk-upload/:bulkUploadId/failed.csv", ALL_ROLES(404)},
    {"GET", "/api/bulk-upload/bulk-upload-log/:bulkUploadId", ALL_ROLES(404)},
    {"POST", "/api/device-group", OWNERS(400)},
    {"GET", "/api/device-group", OWNERS(200)},
    {"GET", "/api/device-group/shared", BUYERS(200)},
    {"GET", "/api/device-group/:id", OWNERS(404)},
    {"PATCH", "/api/device-group/:id", OWNERS(404)},
    {"DELETE", "/api/device-group/:id", OWNERS(404)},
    {"POST", "/api/device-group/:id/devices", OWNERS(400)},
    {"DELETE", "/api/device-group/:id/devices/:deviceId", OWNERS(404)},
    {"GET", "/api/device-group/:id/share", OWNERS(404)},
    {"POST", "/api/device-group/:id/share", OWNERS(400)},
    {"DELETE", "/api/device-group/:id/share/:organizationId", OWNERS(404)},
    {"GET", "/api/certificate-log", BUYERS(200)},
    {"GET", "/api/certificate-log/issuer/certifiedlogOfdevices", BUYERS(200)},
    {"GET", "/api/certificate-log/export.csv", BUYERS(200)},
    {"GET", "/api/certificate-log/totals", BUYERS(200)},
    {"GET", "/api/certificate-log/explain", OWNERS(400)},
    {"GET", "/api/device/:externalId/coverage", OWNERS(404)},
    {"GET", "/api/certificate-log/:id", BUYERS(404)},
    {"GET", "/api/certificate-log/:id/certificate", BUYERS(404)},
    {"PATCH", "/api/certificate-log/:id", ALL_ROLES(400)},
    {"POST", "/api/chat/webhooks", ALL_ROLES(400)},
    {"GET", "/api/chat/webhooks", ALL_ROLES(200)},
    {"GET", "/api/chat/webhooks/events", ALL_ROLES(200)},
    {"GET", "/api/chat/webhooks/statistics", ALL_ROLES(200)},
    {"GET", "/api/chat/webhooks/:id", ALL_ROLES(404)},
    {"PATCH", "/api/chat/webhooks/:id", ALL_ROLES(404)},
    {"DELETE", "/api/chat/webhooks/:id", ALL_ROLES(404)},
    {"POST", "/api/chat/webhooks/:id/test", ALL_ROLES(404)},
    {"POST", "/api/chat/webhooks/:id/filter/test", ALL_ROLES(400)},
    {"POST", "/api/chat/webhooks/:id/rotate-secret", ALL_ROLES(404)},
    {"GET", "/api/chat/webhooks/:id/statistics", ALL_ROLES(404)},
    {"GET", "/api/chat/webhooks/:id/jwks", EVERYBODY(404)},
    {"GET", "/api/chat/webhooks/:id/events", ALL_ROLES(404)},
    {"POST", "/api/chat/webhooks/:id/commit", ALL_ROLES(400)},
    {"GET", "/api/chat/webhooks/:id/consumers", ALL_ROLES(404)},
    {"DELETE", "/api/chat/webhooks/:id/consumers/:consumer", ALL_ROLES(404)},
    {"GET", "/api/chat/webhooks/:id/deliveries", ALL_ROLES(404)},
    {"GET", "/api/chat/webhooks/:id/deliveries/export.csv", ALL_ROLES(404)},
    {"GET", "/api/chat/webhooks/:id/deliveries/:deliveryId", ALL_ROLES(404)},
    {"POST", "/api/chat/webhooks/:id/deliveries/:deliveryId/resend", ALL_ROLES(404)},
    {"POST", "/api/chat/webhooks/:id/recover", ALL_ROLES(400)},
    {"POST", "/api/chat/webhooks/:id/replay", ALL_ROLES(400)},
    {"GET", "/api/chat/webhooks/:id/replay", ALL_ROLES(404)},
    {"DELETE", "/api/chat/webhooks/:id/replay", ALL_ROLES(404)},
    {"DELETE", "/api/auth/sessions/:id", ALL_ROLES(400)},
    {"POST", "/api/auth/logout", ALL_ROLES(200)},
    {"POST", "/api/admin/rotate-secret", ADMINS(200)},
};
// clang-format on

#endif
