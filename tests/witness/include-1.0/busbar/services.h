#ifndef BUSBAR_SERVICES_H
#define BUSBAR_SERVICES_H 
#include <busbar/request.h>
struct bb_authenticator {
    size_t size;
    int (*authenticate)(void *state, struct bb_request *rq, const char *token,
                        struct bb_principal *who);
};
struct bb_account_scope {
    size_t size;
    const char *email;
    unsigned role;
    bool active;
    const int64_t *organizations;
    size_t organization_count;
    int64_t approved_ms;
};
struct bb_accounts {
    size_t size;
    int (*organization_of)(void *state, struct bb_request *rq, const char *email,
                           int64_t *organization);
    int (*scope_of)(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope);
    int (*organization_known)(void *state, struct bb_request *rq, int64_t organization);
};
struct bb_conversations {
    size_t size;
    int (*count_of)(void *state, struct bb_request *rq, const char *email, int64_t *count);
};
struct bb_device {
    size_t size;
    int64_t id;
    int64_t organization;
    const char *uuid;
    const char *external_id;
    const char *serial_number;
    const char *commissioned;
    const char *timezone;
    double capacity_kw;
    double yield;
};
struct bb_devices {
    size_t size;
    int (*find)(void *state, struct bb_request *rq, const char *key, int64_t organization,
                struct bb_device *device);
    int (*get)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
               struct bb_device **devices);
    int (*name_timezone)(void *state, struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const char *timezone);
    int (*organization_named)(void *state, struct bb_request *rq, const char *name,
                              int64_t *organization);
    int (*resolve)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                   int64_t **ids);
    int (*identify)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                    int64_t **ids, const char ***problems);
    int (*sites)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
                 const char ***names);
    void (*country_codes)(void *state, struct bb_request *rq, const char *sent,
                          const char *codes[2]);
};
struct bb_readings {
    size_t size;
    int64_t (*ceiling_wh)(void *state, const struct bb_device *device, int64_t start, int64_t end);
};
struct bb_certificates {
    size_t size;
};
struct bb_mail_text {
    const char *language;
    const char *subject;
    const char *body;
};
struct bb_mail_value {
    const char *name, *value;
};
struct bb_mail_message {
    size_t size;
    const char *kind;
    const char *to;
    const char *language;
    struct bb_table texts;
    struct bb_table values;
    int64_t life_s;
    const char *key;
    int64_t every_s;
};
struct bb_mail {
    size_t size;
    int (*queue)(void *state, struct bb_request *rq, struct bb_tx *tx,
                 const struct bb_mail_message *message);
};
#endif
