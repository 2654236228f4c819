#ifndef BUSBAR_MODULE_H
#define BUSBAR_MODULE_H 
#include <busbar/abi.h>
#include <busbar/field.h>
#include <busbar/metric.h>
#include <busbar/principal.h>
struct bb_host;
struct bb_request;
struct bb_tx;
struct bb_event;
struct bb_worker_context;
enum bb_route_flags {
    BB_CREATES = 1,
    BB_NO_BODY = 2,
    BB_FORM_TOO = 4,
    BB_OAUTH_ERRORS = 8,
    BB_INSIDE = 16,
    BB_KEEP_OTHERS = 32,
    BB_REPLY_IN_503 = 64
};
enum bb_part_kind {
    BB_PART_FIELDS = 1,
    BB_PART_FILES
};
enum {
    BB_FILES_MAX = 100
};
struct bb_part {
    const char *name;
    enum bb_part_kind kind;
    unsigned flags;
    unsigned count_max;
    size_t bytes_max;
    const char *help;
};
struct bb_route {
    const char *method;
    const char *path;
    unsigned roles;
    int (*handler)(struct bb_request *rq);
    struct bb_table segments;
    struct bb_table query;
    struct bb_table body;
    struct bb_table reply;
    size_t body_max;
    unsigned deadline_ms;
    unsigned flags;
    int success;
    const char *help;
    size_t values_max;
    struct bb_table parts;
    size_t files_max;
    const char *files_in;
    const char *files_pool;
    void (*files_failed)(struct bb_host *host);
    const char *reply_type;
    const int *errors;
};
struct bb_event_descriptor {
    const char *name;
    unsigned version;
    struct bb_table payload;
    const char *help;
};
enum bb_hook_kind { BB_WITHIN = 1, BB_COMMITTED };
struct bb_hook {
    const char *event;
    enum bb_hook_kind kind;
    int (*within)(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state);
    void (*committed)(struct bb_request *rq, const struct bb_event *event);
};
struct bb_service_descriptor {
    const char *name;
    unsigned version;
    const void *interface;
};
struct bb_need {
    const char *service;
    unsigned version;
};
struct bb_channel {
    const char *name;
    void (*heard)(void *state, const char *payload);
};
enum bb_job_flags { BB_ONCE = 1 };
struct bb_job {
    const char *name;
    unsigned every_s;
    unsigned flags;
    void (*run)(struct bb_request *rq);
};
struct bb_pool {
    const char *name;
    unsigned threads;
    unsigned queue;
    int nice;
};
struct bb_worker {
    const char *name;
    void (*run)(struct bb_worker_context *context);
};
enum bb_command_flag {
    BB_COMMAND_LONG = 1
};
struct bb_command {
    const char *name;
    struct bb_table options;
    int (*run)(struct bb_request *rq);
    const char *help;
    unsigned flags;
};
enum bb_module_flag {
    BB_MODULE_SEALS = 1
};
struct bb_module {
    size_t size;
    unsigned abi_major, abi_minor;
    const char *name;
    const char *version;
    const char *schema;
    struct bb_table settings;
    struct bb_table routes;
    struct bb_table events;
    struct bb_table hooks;
    struct bb_table services;
    struct bb_table needs;
    struct bb_table channels;
    struct bb_table jobs;
    struct bb_table pools;
    struct bb_table workers;
    struct bb_table commands;
    int (*open)(struct bb_host *host, void **state);
    void (*start)(struct bb_host *host, void *state);
    void (*quiesce)(struct bb_host *host, void *state);
    void (*close)(struct bb_host *host, void *state);
    struct bb_table metrics;
    struct bb_table wants;
    unsigned flags;
    const char *help;
    size_t settings_size;
};
#define BB_MODULE_HEAD(module_name,module_version) \
    .size = sizeof(struct bb_module), .abi_major = BB_ABI_MAJOR, .abi_minor = BB_ABI_MINOR, \
    .name = (module_name), .version = (module_version)
#define BB_MODULE_SYMBOL "busbar_module"
#ifdef __cplusplus
extern "C" BB_EXPORT const struct bb_module busbar_module;
#endif
#endif
