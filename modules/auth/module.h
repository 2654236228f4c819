/*
 * The functions that module.c's tables name in addition to the folders' headers: the state of a
 * generation, and a job.
 */
#ifndef AUTH_MODULE_H
#define AUTH_MODULE_H

#include <busbar/busbar.h>

int auth_open(struct bb_host *host, void **state);
void auth_close(struct bb_host *host, void *state);

/* cleanup.c: the job auth.cleanup. */
void auth_cleanup(struct bb_request *rq);

#endif
