/* The program: sets up the process, then runs the command line. */
#include <curl/curl.h>
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/lib/crash.h"
#include "core/lib/json.h"
#include "core/lib/supervised.h"
#include "core/main/cli.h"
#include "core/main/supervisor.h"
#include "core/store/pg_connect.h"

/* malloc() maps larger blocks separately, so that argon2's memory is returned when it is freed. */
#define MAP_FROM (256 * 1024)

int main(int argc, char **argv)
{
    int status = CLI_DONE;

    guard_environment();
    if (supervisor_run(argc, argv, &status)) /* before memory is allocated */
        return status;
    supervised_begin();
    umask(077);
    pg_clean_environment();
    signal(SIGPIPE, SIG_IGN); /* libraries write to sockets without suppressing the signal */
    signal(SIGXFSZ,
           SIG_IGN); /* makes a write to a file at its size limit fail, as on a full disk */
    mallopt(M_MMAP_THRESHOLD, MAP_FROM);
    json_watch_memory();
    json_object_seed(0);
    /* OpenSSL's cleanup at exit would run while threads still use it. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) ||
        curl_global_init(CURL_GLOBAL_DEFAULT)) {
        fputs("busbar: OpenSSL or libcurl cannot be initialized\n", stderr);
        return CLI_FAILED;
    }
    status = cli_main(argc, argv);
    crash_exits();
    curl_global_cleanup();
    return fflush(stdout) || ferror(stdout) ? CLI_FAILED : status;
}
