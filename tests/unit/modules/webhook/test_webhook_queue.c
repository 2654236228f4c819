/* Admission control: each webhook has a budget, and no receiver delays others' deliveries. */
#include "modules/webhook/sender/queue.h"
#include "suite.h"

#define SLOTS 64
#define FLOW_ITEMS 1024
#define FLOW_BYTES (4U << 20)
#define FLOW_FLYING 64
#define ITEMS 4096

static struct queue queue;
static struct queue_flow flows[300];
static struct queue_item items[ITEMS];
static size_t used;

static void setup(void)
{
    static const struct queue_limits limits = {.slots = SLOTS,
                                               .flow_flying = FLOW_FLYING,
                                               .flow_items = FLOW_ITEMS,
                                               .flow_bytes = FLOW_BYTES,
                                               .bytes = 24U << 20};

    queue_init(&queue, &limits);
    for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++)
        queue_flow_init(&flows[i]);
    used = 0;
}

static size_t fill(struct queue_flow *flow, size_t count, uint32_t size)
{
    size_t admitted = 0;

    for (; admitted < count; admitted++) {
        ck_assert_uint_lt(used, ITEMS);
        items[used] = (struct queue_item){.size = size};
        if (!queue_admit(&queue, flow, &items[used]))
            break;
        used++;
    }
    return admitted;
}

static void answer(struct queue_item *item, int64_t now)
{
    queue_finished(&queue, item, true, now);
    queue_release(&queue, item);
}

/* Sends one delivery and responds at once: the flow is fast. */
static void prove(struct queue_flow *flow, int64_t now)
{
    fill(flow, 1, 100);
    struct queue_item *item = queue_take(&queue, now);

    ck_assert_ptr_nonnull(item);
    ck_assert_ptr_eq(item->flow, flow);
    answer(item, now + 1);
    ck_assert_int_eq(flow->class, QUEUE_FAST);
}

static size_t take_all(int64_t now, size_t *of, struct queue_flow *flow)
{
    struct queue_item *item;
    size_t taken = 0;

    while ((item = queue_take(&queue, now))) {
        taken++;
        if (of && item->flow == flow)
            ++*of;
    }
    return taken;
}

TEST(items_are_sent_in_order)
{
    fill(&flows[0], 3, 100);
    for (size_t i = 0; i < 3; i++) {
        struct queue_item *item = queue_take(&queue, 0);

        ck_assert_ptr_eq(item, &items[i]);
        answer(item, 1);
    }
    ck_assert_ptr_null(queue_take(&queue, 0));
    ck_assert_uint_eq(queue.held_bytes, 0);
    ck_assert_uint_eq(queue_flying(&queue), 0);
}

TEST(the_budget_of_a_fast_flow_grows_from_one)
{
    fill(&flows[0], 1, 100);
    ck_assert_uint_eq(take_all(0, NULL, NULL), 1);
    answer(&items[0], 40);
    fill(&flows[0], 1000, 100);
    ck_assert_uint_eq(take_all(40, NULL, NULL), 4);
    for (size_t i = 1; i < 5; i++)
        answer(&items[i], 80);
    ck_assert_uint_eq(take_all(80, NULL, NULL), 8);
    for (size_t i = 5; i < 200; i++) {
        if (items[i].place == QUEUE_FLYING)
            answer(&items[i], items[i].started_ms + 40);
        take_all(120, NULL, NULL);
    }
    ck_assert_uint_eq(flows[0].flying, SLOTS / 2);
}

/* Otherwise every flow would use a connection for each of its slots, and the others would need as
 * many. */
TEST(a_flow_with_an_immediate_receiver_has_few_in_flight)
{
    prove(&flows[0], 0);
    fill(&flows[0], 1000, 100);
    for (int64_t now = 1; used && items[900].place == QUEUE_WAITING; now += 2) {
        take_all(now, NULL, NULL);
        ck_assert_uint_le(flows[0].flying, 8);
        for (size_t i = 0; i < used; i++)
            if (items[i].place == QUEUE_FLYING)
                answer(&items[i], now + 2);
    }
    ck_assert_uint_eq(flows[0].cap, 8);
}

/* Adds one item every `every` milliseconds until `until`; took() returns how long each one takes.
 * Expects this number of waiting items, and this cap, at the end. */
static void run_flow(struct queue_flow *flow, int64_t every, int64_t until,
                     int64_t (*took)(size_t index), size_t waiting, size_t cap)
{
    size_t landed = 0;

    for (int64_t now = 0; now < until; now++) {
        if (now % every == 0)
            fill(flow, 1, 100);
        for (size_t i = landed; i < used; i++)
            if (items[i].place == QUEUE_FLYING && now >= items[i].started_ms + took(i))
                answer(&items[i], now);
        while (landed < used && items[landed].place == QUEUE_OUT)
            landed++;
        queue_tick(&queue, now);
        take_all(now, NULL, NULL);
    }
    ck_assert_msg(flow->waiting_count == waiting && flow->cap == cap, "%zu wait, the cap is %zu",
                  flow->waiting_count, flow->cap);
}

static int64_t one_in_ten_at_once(size_t index)
{
    return index % 10 ? 100 : 0;
}

static int64_t always_100(size_t index)
{
    (void)index;
    return 100;
}

/* By Little's law, 90 a second with a mean of 90 ms means 8 in flight. */
TEST(occasional_immediate_responses_do_not_inflate_the_budget)
{
    run_flow(&flows[0], 11, 20000, one_in_ten_at_once, 0, 11);
}

static int64_t nine_in_ten_take_3_s(size_t index)
{
    return index % 10 ? 3000 : 0;
}

/* Four a second with a mean of 2.7 s need 11 in flight. */
TEST(some_immediate_responses_do_not_starve_a_slow_receiver)
{
    run_flow(&flows[0], 250, 60000, nine_in_ten_take_3_s, 0, 16);
    ck_assert_int_eq(flows[0].class, QUEUE_SLOW);
}

TEST(a_flow_has_as_many_in_flight_as_its_rate_requires)
{
    run_flow(&flows[0], 11, 20000, always_100, 0, 12);
}

/* The response time does not matter: a thousand receivers that share a processor all seem slow. */
TEST(a_flow_with_little_to_send_has_few_in_flight)
{
    run_flow(&flows[0], 200, 20000, always_100, 0, 5);
}

TEST(a_failure_halves_the_budget_of_a_flow)
{
    prove(&flows[0], 0);
    flows[0].cap = 32;
    fill(&flows[0], 1, 100);
    struct queue_item *item = queue_take(&queue, 5);

    queue_finished(&queue, item, false, 6);
    ck_assert_uint_eq(flows[0].cap, 16);
    ck_assert_int_eq(item->place, QUEUE_RESTING);
    queue_again(&queue, item);
    ck_assert_ptr_eq(queue_take(&queue, 7), item);
}

TEST(two_hundred_hung_receivers_leave_slots_for_fast_ones)
{
    for (size_t i = 250; i < 260; i++)
        prove(&flows[i], 0);
    for (size_t i = 0; i < 200; i++)
        fill(&flows[i], 5, 100);

    size_t hanging = 0;

    for (int64_t now = 0; now < 10000; now += 100) {
        queue_tick(&queue, now);
        hanging += take_all(now, NULL, NULL);
        ck_assert_uint_le(queue_flying(&queue), QUEUE_CROWD * SLOTS);
    }
    ck_assert_uint_eq(hanging, 200); /* one of each flow */
    for (size_t i = 250; i < 260; i++)
        fill(&flows[i], 3, 100);
    size_t fast = 0;

    for (struct queue_item *item; (item = queue_take(&queue, 10000)); fast++)
        ck_assert_int_eq(item->flow->class, QUEUE_FAST);
    ck_assert_uint_eq(fast, 30);
}

TEST(a_receiver_that_begins_to_hang_is_demoted)
{
    prove(&flows[0], 0);
    prove(&flows[1], 0);
    flows[0].cap = FLOW_FLYING;
    fill(&flows[0], 200, 100);
    ck_assert_uint_eq(take_all(10, NULL, NULL), SLOTS / 2);
    fill(&flows[1], 4, 100);
    ck_assert_ptr_null(queue_take(&queue, 11));
    ck_assert_int_eq(queue_tick(&queue, 11), QUEUE_YOUNG_MS);

    size_t of = 0;

    ck_assert_int_eq(queue_tick(&queue, 11 + QUEUE_YOUNG_MS), QUEUE_SLOW_MS - QUEUE_YOUNG_MS);
    for (int64_t now = 150; now < 510; now += 110) { /* the flow fills its own budget first */
        take_all(now, &of, &flows[1]);
        queue_tick(&queue, now + 101);
    }
    ck_assert_uint_eq(of, 4);
    queue_tick(&queue, 12 + QUEUE_SLOW_MS);
    ck_assert_int_eq(flows[0].class, QUEUE_SLOW);
}

/* 640 fast receivers begin to hang, and 300 new ones hang from the start; receivers that respond
 * wait only briefly. */
TEST(hundreds_of_hung_receivers_delay_others_only_briefly)
{
    static struct queue_flow crowd[640];
    struct queue_flow *fast = &flows[290], *fresh = &flows[291];
    int64_t fast_at = -1, fresh_at = -1;

    prove(fast, 0);
    for (size_t i = 0; i < 640; i++) {
        queue_flow_init(&crowd[i]);
        prove(&crowd[i], 0);
    }
    queue.limits.slots = 256;
    for (size_t i = 0; i < 640; i++)
        fill(&crowd[i], 1, 100);
    for (size_t i = 0; i < 290; i++)
        fill(&flows[i], 1, 100);
    fill(fast, 1, 100);
    fill(fresh, 1, 100);
    for (int64_t now = 10; now < 2000 && (fast_at < 0 || fresh_at < 0); now += 10) {
        struct queue_item *item;

        queue_tick(&queue, now);
        while ((item = queue_take(&queue, now))) {
            fast_at = item->flow == fast ? now : fast_at;
            fresh_at = item->flow == fresh ? now : fresh_at;
        }
    }
    ck_assert_int_gt(fast_at, 0);
    ck_assert_int_le(fast_at, 650);
    ck_assert_int_gt(fresh_at, 0);
    ck_assert_int_le(fresh_at, 650);
}

/* A slow flow is served, too, although many others hang. */
TEST(a_slow_flow_is_served_while_many_others_hang)
{
    for (size_t i = 0; i < 200; i++)
        fill(&flows[i], 2, 100);
    for (int64_t now = 0; now < 3000; now += 50) {
        queue_tick(&queue, now);
        take_all(now, NULL, NULL);
    }
    struct queue_item *item = TAILQ_FIRST(&flows[7].waiting) ? &items[14] : NULL;

    ck_assert_ptr_nonnull(item);
    ck_assert_int_eq(flows[7].class, QUEUE_SLOW);
    answer(item, 3000); /* after three seconds: slow but alive */
    ck_assert_ptr_eq(queue_take(&queue, 3000), &items[15]);
}

TEST(a_slow_receiver_that_recovers_is_fast_again)
{
    fill(&flows[0], 2, 100);
    struct queue_item *item = queue_take(&queue, 0);

    queue_tick(&queue, 1000);
    ck_assert_int_eq(flows[0].class, QUEUE_SLOW);
    answer(item, 2000);
    ck_assert_int_eq(flows[0].class, QUEUE_SLOW);
    item = queue_take(&queue, 2000);
    answer(item, 2010);
    ck_assert_int_eq(flows[0].class, QUEUE_FAST);
    ck_assert_uint_eq(queue_flying(&queue), 0);
}

TEST(flows_share_the_slots_by_bytes)
{
    prove(&flows[0], 0);
    prove(&flows[1], 0);
    flows[0].cap = flows[1].cap = 1;
    fill(&flows[0], 60, 60000);
    fill(&flows[1], 1000, 1000);
    size_t sent[2] = {0, 0};

    for (int i = 0; i < 800; i++) {
        struct queue_item *item = queue_take(&queue, 1);

        sent[item->flow - flows] += item->size + 512;
        flows[item->flow - flows].cap = 2; /* no flow is ever over its budget, so turns decide */
        answer(item, 2);
        flows[0].cap = flows[1].cap = 2;
        if (!flows[0].waiting_count || !flows[1].waiting_count)
            break;
    }
    ck_assert_uint_gt(sent[0] * 10, sent[1] * 7);
    ck_assert_uint_lt(sent[0] * 7, sent[1] * 10);
}

TEST(a_flow_has_a_limit_of_waiting_items)
{
    prove(&flows[0], 0);
    prove(&flows[1], 0);
    ck_assert_uint_eq(fill(&flows[5], 2000, 100), FLOW_ITEMS / 8);
    ck_assert_uint_eq(fill(&flows[0], 2000, 100), FLOW_ITEMS);
    ck_assert(!queue_room(&queue, &flows[0], 1));
    ck_assert_uint_eq(fill(&flows[4], 100, 1U << 17), FLOW_BYTES >> 20);
    ck_assert_uint_eq(fill(&flows[1], 100, 1U << 20), FLOW_BYTES >> 20);
    ck_assert_uint_eq(fill(&flows[2], 1, 30U << 20), 1); /* the only item of its flow */
    ck_assert_uint_eq(fill(&flows[3], 100, 100), QUEUE_FLOW_SURE);
}

/* A hundred deliveries of one body of a MiB use the memory of one, and all of it is released. */
TEST(a_body_shared_by_items_is_counted_once)
{
    const uint32_t body = 1U << 20, own = 100;

    queue.held_bytes += body;
    for (used = 0; used < 100; used++) {
        items[used] = (struct queue_item){.size = body + own, .shared = body};
        ck_assert(queue_admit(&queue, &flows[used], &items[used]));
    }
    ck_assert_uint_eq(queue.held_bytes, body + 100 * own);
    ck_assert_uint_eq(flows[0].held_bytes, body + own);
    for (size_t i = 0; i < used; i++)
        queue_release(&queue, &items[i]);
    queue.held_bytes -= body;
    ck_assert_uint_eq(queue.held_bytes, 0);
    ck_assert_uint_eq(flows[0].held_bytes, 0);
}

TEST(a_flow_with_failures_has_a_smaller_limit_of_waiting_items)
{
    prove(&flows[0], 0);
    fill(&flows[0], FLOW_ITEMS / 4, 100);
    flows[0].cap = 2;
    ck_assert(queue_room(&queue, &flows[0], 100));
    queue_finished(&queue, queue_take(&queue, 1), false, 2);
    ck_assert_uint_eq(flows[0].cap, 1);
    ck_assert(!queue_room(&queue, &flows[0], 100));
}

TEST(a_closed_flow_sends_nothing)
{
    fill(&flows[0], 3, 100);
    queue_close(&queue, &flows[0], true);
    ck_assert_ptr_null(queue_take(&queue, 0));
    queue_close(&queue, &flows[0], false);
    ck_assert_ptr_nonnull(queue_take(&queue, 0));
}

TEST(waiting_items_can_be_released)
{
    fill(&flows[0], 3, 100);
    queue_release(&queue, &items[1]);
    queue_release(&queue, &items[0]);
    ck_assert_ptr_eq(queue_take(&queue, 0), &items[2]);
    ck_assert_uint_eq(flows[0].held, 1);
}

/* The delivery is again the first of its flow, and its receiver's budget is unchanged. */
TEST(an_item_not_sent_is_put_back_first)
{
    prove(&flows[0], 0);
    size_t cap = flows[0].cap;

    fill(&flows[0], 2, 100);
    struct queue_item *first = queue_take(&queue, 1);

    queue_put_back(&queue, first);
    ck_assert_uint_eq(queue_flying(&queue), 0);
    ck_assert_uint_eq(flows[0].cap, cap);
    ck_assert_ptr_eq(queue_take(&queue, 2), first);
}

/* After any events in any order, the totals are consistent, and zero in the end. */
TEST(the_totals_of_a_random_run_are_consistent)
{
    unsigned seed = 1;
    size_t flying = 0;

    for (int64_t now = 0; now < 200000; now++) {
        seed = seed * 1103515245 + 12345;
        struct queue_item *item = &items[(seed >> 8) % 500];
        struct queue_flow *flow = &flows[(seed >> 20) % 7];

        if (item->place == QUEUE_OUT) {
            *item = (struct queue_item){.size = seed >> 16};
            queue_admit(&queue, flow, item);
        } else if (item->place == QUEUE_FLYING) {
            if (seed & 32)
                queue_put_back(&queue, item);
            else
                queue_finished(&queue, item, seed & 64, now);
            flying--;
        } else if (item->place == QUEUE_RESTING && (seed & 128)) {
            queue_again(&queue, item);
        } else {
            queue_release(&queue, item);
        }
        queue_close(&queue, flow, (seed >> 5) % 16 == 0);
        queue_tick(&queue, now);
        flying += queue_take(&queue, now) != NULL;
        ck_assert_uint_eq(queue_flying(&queue), flying);
    }
    for (size_t i = 0; i < 500; i++)
        if (items[i].place == QUEUE_FLYING)
            answer(&items[i], 200000);
        else if (items[i].place != QUEUE_OUT)
            queue_release(&queue, &items[i]);
    ck_assert_uint_eq(queue.held_bytes + queue_flying(&queue), 0);
    for (int class = 0; class < QUEUE_CLASSES; class ++)
        ck_assert_uint_eq(queue.young[class], 0);
}

/* A low item that is sent again comes before other low items, but after the others. */
TEST(low_items_wait_until_the_flow_has_no_other_items)
{
    static const bool low[] = {true, false, true, false};
    static const size_t order[] = {1, 3, 0, 2};

    for (size_t i = 0; i < 4; i++) {
        items[i] = (struct queue_item){.size = 100, .low = low[i]};
        ck_assert(queue_admit(&queue, &flows[0], &items[i]));
    }
    for (size_t i = 0; i < 4; i++) {
        struct queue_item *item = queue_take(&queue, 0);

        ck_assert_ptr_eq(item, &items[order[i]]);
        if (i == 2) {
            queue_finished(&queue, item, false, 1);
            queue_again(&queue, item);
            items[4] = (struct queue_item){.size = 100};
            ck_assert(queue_admit(&queue, &flows[0], &items[4]));
            item = queue_take(&queue, 1);
            ck_assert_ptr_eq(item, &items[4]);
            answer(item, 1);
            item = queue_take(&queue, 1);
            ck_assert_ptr_eq(item, &items[order[i]]);
        }
        answer(item, 1);
    }
    ck_assert_ptr_null(queue_take(&queue, 1));
}

SUITE(webhook_queue, .before_each = setup)
