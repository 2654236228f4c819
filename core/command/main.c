/* The program: what belongs to the process as a whole, then the command line. */
#include <curl/curl.h>
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/json_in.h"
#include "core/command/cli.h"
#include "core/postgres/pg.h"
#include "core/recovery/crash.h"
#include "core/recovery/guard.h"
#include "core/recovery/supervised.h"
#include "core/recovery/supervisor.h"

/* Above this size malloc maps blocks by themselves, so that those of argon2 go back when freed. */
#define MAP_FROM (256 * 1024)

static int set_up(void)
{
    umask(077);
    pg_clean_environment();
    signal(SIGPIPE, SIG_IGN); /* libraries write to sockets without asking for silence */
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a write that fails, as on a full disk */
    mallopt(M_MMAP_THRESHOLD, MAP_FROM);
    json_watch_memory();
    json_object_seed(0);
    /* Its own clean-up would run while threads still use it. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL))
        return -1;
    return curl_global_init(CURL_GLOBAL_DEFAULT) ? -1 : 0;
}

int main(int argc, char **argv)
{
    int status = CLI_DONE;

    guard_environment();
    if (supervisor_run(argc, argv, &status)) /* before anything that takes memory */
        return status;
    supervised_begin();
    if (set_up()) {
        fputs("busbar: OpenSSL or libcurl cannot be initialised\n", stderr);
        return CLI_FAILED;
    }
    status = cli_main(argc, argv);
    crash_exits();
    curl_global_cleanup();
    return fflush(stdout) || ferror(stdout) ? CLI_FAILED : status;
}
