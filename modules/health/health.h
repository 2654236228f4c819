/* health: reports whether the process is alive, and the state of its dependencies. */
#ifndef HEALTH_H
#define HEALTH_H

#include <busbar/busbar.h>

int health_alive(struct bb_request *rq);
int health_ready(struct bb_request *rq);
int health_status(struct bb_request *rq);

#endif
