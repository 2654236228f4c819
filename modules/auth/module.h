/* What module.c's tables name beside the folders: the state of a generation, and a job. */
#ifndef AUTH_MODULE_H
#define AUTH_MODULE_H

#include <busbar/busbar.h>

/* state.c */
int auth_open(struct bb_host *host, void **state);
void auth_close(struct bb_host *host, void *state);

/* cleanup.c: the job */
void auth_cleanup(struct bb_request *rq);

#endif
