#include "core/main/watchdog.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/main/sd_notify.h"

enum { TELL_MS = 1000 }; /* loops publish statistics twice a second, see metrics_publish() */

struct watchdog {
    struct timer timer; /* first */
    struct engine *engine;
    int64_t every_ms; /* half of the manager's timeout */
    bool told;        /* logged that a loop hangs */
};

/* Returns the manager's timeout in milliseconds; 0: none. */
static int64_t allowed_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    long meant = pid ? strtol(pid, NULL, 10) : 0;

    if (!usec || (pid && meant != (long)getpid() && !(supervised() && meant == (long)getppid())))
        return 0;
    return strtoll(usec, NULL, 10) / 1000;
}

static bool loops_turn(const struct watchdog *watchdog, int64_t now_ms)
{
    const struct engine *engine = watchdog->engine;

    for (unsigned i = 0; i < engine->loop_count; i++) {
        int64_t at_ms = atomic_load(&engine->loops[i].stats.at_ms);

        if (at_ms && at_ms + watchdog->every_ms + TELL_MS < now_ms)
            return false;
    }
    return true;
}

static void look(struct timer *timer)
{
    struct watchdog *watchdog = (struct watchdog *)(void *)timer;
    struct loop *loop = &watchdog->engine->loops[0];

    bool turn = loops_turn(watchdog, loop->now_ms);

    if (turn)
        sd_notify_alive();
    else if (!watchdog->told)
        log_line(BB_ERROR, "event loop blocked: the systemd watchdog is not notified", NULL);
    watchdog->told = !turn;
    timer_set(&loop->timers, timer, loop->now_ms + watchdog->every_ms);
}

struct watchdog *watchdog_new(struct engine *engine)
{
    int64_t ms = allowed_ms();
    struct watchdog *watchdog = ms > 0 ? calloc(1, sizeof *watchdog) : NULL;

    if (ms <= 0)
        return NULL;
    if (!watchdog) {
        log_line(BB_ERROR, "no memory for the watchdog", NULL);
        return NULL;
    }
    *watchdog = (struct watchdog){
        .timer.fire = look, .engine = engine, .every_ms = ms / 6 > 0 ? ms / 6 : 1};
    look(&watchdog->timer);
    return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    timer_clear(&watchdog->engine->loops[0].timers, &watchdog->timer);
    free(watchdog);
}
