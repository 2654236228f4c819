#include "hook_owners.h"

struct person *anna, *ben, *agent;

void hook_owners_open(const char *name, const char *more)
{
    stage_open(&(struct host_spec){
        .name = name, .modules = WEBHOOK_MODULES, .more = text("%s%s", WEBHOOK_LOCAL, more)});
    webhook_ready(name, 1);
    anna = person_with_role(host, admin, "hook-anna", "User");
    ben = person_with_role(host, admin, "hook-ben", "User");
    agent = person_make(host, admin, "hook-agent", "ApiUser");
}
