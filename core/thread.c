#include "core/thread.h"

#include <pthread.h>
#include <stdio.h>

void thread_name(const char *owner, const char *what)
{
    char name[16];

    snprintf(name, sizeof name, "%s%s%s", owner, what ? "/" : "", what ? what : "");
    pthread_setname_np(pthread_self(), name);
}
