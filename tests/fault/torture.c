/* LD_PRELOAD: makes the Nth allocation, thread, fsync, write or sched_setattr fail, makes name
 * lookups fail or delays them, and moves the wall clock. See torture.h. */
#include "fault/torture.h"

#include <argon2.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct torture *torture;

/* Logs where a host crashed; without a sanitizer nothing else would report it. */
static void tell_crash(int number)
{
    void *frames[64];

    /* NOLINTBEGIN(bugprone-signal-handler): nothing is left to lose */
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    /* NOLINTEND(bugprone-signal-handler) */
    signal(number, SIG_DFL);
    raise(number);
}

/* Crashes in the main thread use an alternate stack, because fibers run there and may have used up
 * theirs. */
static void on_crash(int number)
{
    static char room[65536];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_handler = tell_crash, .sa_flags = SA_ONSTACK};

    sigaltstack(&stack, NULL);
    sigaction(number, &action, NULL);
}

__attribute__((constructor)) static void open_counters(void)
{
    void *frame[1];

    backtrace(frame, 1); /* loads the libraries it needs */
    on_crash(SIGSEGV);
    on_crash(SIGBUS);
    on_crash(SIGABRT);
    on_crash(SIGFPE);
    const char *path = getenv(TORTURE_FILE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *torture, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    if (map != MAP_FAILED)
        torture = map;
}

static bool fails(atomic_long *counter)
{
    long left = atomic_load(counter);

    while (left > 0 && !atomic_compare_exchange_weak(counter, &left, left - 1))
        ;
    if (left != 1)
        return false;
    atomic_fetch_add(&torture->failed, 1);
    return true;
}

/* Returns the next function of that name, looked up once. dlsym() then allocates nothing. */
static void *next(atomic_uintptr_t *known, const char *name)
{
    void *found = (void *)atomic_load(known);

    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        atomic_store(known, (uintptr_t)found);
    }
    return found;
}

/* Declares `real`, the function that this one replaces. */
#define REAL(function)                                                                             \
    static atomic_uintptr_t known;                                                                 \
    __typeof__(&(function)) real = (__typeof__(&(function)))next(&known, #function)

/* dladdr() would also look for the function, which takes most of the time of some starts. */
static bool is_of(void *caller, const char *library)
{
    struct dl_find_object about;

    if (_dl_find_object(caller, &about))
        return false;
    const char *file = about.dlfo_link_map->l_name; /* "": the program */

    return strstr(*file ? file : program_invocation_name, library) != NULL;
}

/* Without memory, OpenSSL 3.0 continues with an incomplete default context, so its allocations can
 * be spared. */
static bool is_spared(void *caller)
{
    if (*torture->only)
        return !is_of(caller, torture->only);
    return atomic_load(&torture->spare_crypto) && is_of(caller, "/libcrypto.so");
}

static bool is_refused(size_t size)
{
    long from = torture ? atomic_load(&torture->refused_from) : 0;

    if (!from || size < (size_t)from)
        return false;
    atomic_fetch_add(&torture->failed, 1);
    errno = ENOMEM;
    return true;
}

static bool no_memory(void *caller, size_t size)
{
    if (is_refused(size))
        return true;
    if (!torture || !atomic_load(&torture->allocations) || is_spared(caller) ||
        !fails(&torture->allocations))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    REAL(malloc);

    return no_memory(__builtin_return_address(0), size) ? NULL : real(size);
}

void *calloc(size_t count, size_t size)
{
    REAL(calloc);

    return no_memory(__builtin_return_address(0), count * size) ? NULL : real(count, size);
}

void *realloc(void *memory, size_t size)
{
    REAL(realloc);

    return no_memory(__builtin_return_address(0), size) ? NULL : real(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    REAL(posix_memalign);

    return no_memory(__builtin_return_address(0), size) ? ENOMEM : real(memory, alignment, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    REAL(pthread_create);

    if (torture && fails(&torture->threads))
        return EAGAIN;
    return real(thread, attributes, run, arg);
}

int fsync(int fd)
{
    REAL(fsync);

    if (torture && atomic_load(&torture->sync_ms))
        poll(NULL, 0, (int)atomic_load(&torture->sync_ms));
    if (!torture || !fails(&torture->syncs))
        return real(fd);
    errno = EIO;
    return -1;
}

/* The C library has no function for sched_setattr(2); system calls have up to six arguments. */
long syscall(long number, ...)
{
    REAL(syscall);
    long of[6];
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        of[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!torture || number != SYS_sched_setattr || !fails(&torture->priorities))
        return real(number, of[0], of[1], of[2], of[3], of[4], of[5]);
    errno = EPERM;
    return -1;
}

/* The real function is in a library that only a module loads, so RTLD_NEXT cannot find it; it is
 * looked up by the library's name. */
int argon2id_ctx(argon2_context *context)
{
    void *library = dlopen("libargon2.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*real)(argon2_context *) = (int (*)(argon2_context *))dlsym(library, "argon2id_ctx");

    if (torture && fails(&torture->hashes))
        raise(SIGSEGV);
    return real(context);
}

static bool is_address(const char *host)
{
    unsigned char room[sizeof(struct in6_addr)];

    return !host || inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    REAL(getaddrinfo);

    if (torture && atomic_load(&torture->answer_ms) && !is_address(host))
        poll(NULL, 0, (int)atomic_load(&torture->answer_ms));
    if (!torture || !atomic_load(&torture->lookup_ms) || is_address(host))
        return real(host, service, hints, found);
    atomic_fetch_add(&torture->failed, 1);
    poll(NULL, 0, (int)atomic_load(&torture->lookup_ms));
    return EAI_AGAIN;
}

static bool is_file(int fd)
{
    struct stat about;

    return fd > STDERR_FILENO && !fstat(fd, &about) && S_ISREG(about.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(write);

    while (torture && atomic_load(&torture->stuck) && is_file(fd))
        pause();
    if (!torture || !atomic_load(&torture->writes) || !is_file(fd) || !fails(&torture->writes))
        return real(fd, bytes, length);
    errno = ENOSPC;
    return -1;
}

static time_t off(void)
{
    return torture ? (time_t)atomic_load(&torture->clock_s) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(clock_gettime);
    int failed = real(clock, now);

    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec fine;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &fine))
        return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec fine;

    if (clock_gettime(CLOCK_REALTIME_COARSE, &fine))
        return -1;
    if (out)
        *out = fine.tv_sec;
    return fine.tv_sec;
}
