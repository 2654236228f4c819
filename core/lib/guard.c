#include "core/lib/guard.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void guard_environment(void)
{
    size_t count = 0, bytes = 0, used = 0;

    while (environ && environ[count])
        bytes += strlen(environ[count++]) + 1;
    char **copy = count ? malloc((count + 1) * sizeof *copy + bytes) : NULL;

    if (!copy)
        return;
    char *text = (char *)(copy + count + 1);

    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(environ[i]) + 1;

        copy[i] = memcpy(text + used, environ[i], size);
        explicit_bzero(environ[i], size);
        used += size;
    }
    copy[count] = NULL;
    environ = copy;
}

void guard_process(void)
{
    static const int unused[] = {SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT};

    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        signal(unused[i], SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* kernels without this option are accepted */
}
