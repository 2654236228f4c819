#include "core/lib/loop.h"
#include "core/lib/text.h"
#include "suite.h"

enum { DUE_MS = 400, BUSY_MS = 390, LATE_MS = 200, TRIES = 20 };

static struct loop loop;

static void set_up(void)
{
    ck_assert_int_eq(loop_init(&loop, NULL, 0), 0);
}

static void tear_down(void)
{
    loop_free(&loop);
}

static void stop(struct timer *timer)
{
    (void)timer;
    loop.stop = true;
}

static void be_busy(struct message *message)
{
    (void)message;
    usleep(BUSY_MS * 1000);
}

/* On a busy machine a timer may be late, but not each time. */
TEST(a_timer_fires_on_time_after_a_long_turn)
{
    int64_t late = LATE_MS;

    for (int tries = 0; late >= LATE_MS && tries < TRIES; tries++) {
        struct timer timer = {.fire = stop};
        struct message message = {.run = be_busy};
        int64_t due = clock_mono_ms() + DUE_MS;

        loop.stop = false;
        timer_set(&loop.timers, &timer, due);
        loop_post(&loop, &message);
        loop_run(&loop);
        late = clock_mono_ms() - due;
        ck_assert_int_ge(late, 0);
    }
    ck_assert_int_lt(late, LATE_MS);
}

enum { PAGES = 8, PAGE_US = 2000 };

static struct work {
    struct task task; /* must be first */
    int rank;         /* number of tasks that ran before it */
} pages[PAGES], answer;
static int ran, ran_before_iteration, most_in_iteration;

static void rank(struct task *task)
{
    ((struct work *)(void *)task)->rank = ran++;
}

static void page(struct task *task)
{
    rank(task);
    usleep(PAGE_US);
}

static void count_iteration(void *of)
{
    (void)of;
    if (ran - ran_before_iteration > most_in_iteration)
        most_in_iteration = ran - ran_before_iteration;
    ran_before_iteration = ran;
    loop.stop = ran == PAGES + 1;
}

/* Pages of long responses, and then a response that a client waits for. */
TEST(patient_tasks_run_one_per_turn_after_all_others)
{
    loop_add_part(&loop, &(struct loop_part){.run = count_iteration});
    for (int i = 0; i < PAGES; i++) {
        pages[i].task = (struct task){.run = page, .patient = true};
        loop_schedule(&loop, &pages[i].task);
    }
    answer.task.run = rank;
    loop_schedule(&loop, &answer.task);
    loop_run(&loop);
    ck_assert_int_eq(answer.rank, 0);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(pages[i].rank, i + 1);
    ck_assert_int_eq(most_in_iteration, 2);
}

SUITE(loop, .before_each = set_up, .after_each = tear_down)
