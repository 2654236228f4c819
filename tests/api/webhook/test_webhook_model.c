/* Runs delivery_model.py, which compares deliveries with a model. BUSBAR_TEST_SEED is its seed (1).
 */
#include "harness.h"

TEST(deliveries_are_what_the_model_predicts_while_hosts_and_postgresql_are_killed)
{
    const char *seed = getenv("BUSBAR_TEST_SEED"), *log = harness_path("model.log");
    const char *const argv[] = {"python3",
                                TEST_SOURCES "/api/webhook/delivery_model.py",
                                harness_program(false),
                                "--seed",
                                seed ? seed : "1",
                                "--deliveries",
                                text("%d", repetitions(2000, 3500)),
                                "--rounds",
                                "2",
                                NULL};

    ck_assert_msg(!process_run(&(struct process_spec){.argv = argv, .log = log}), "%s",
                  file_text(log));
}

SUITE(webhook_model, .timeout_s = 120)
