/* At the end of a run, no log contains a password, a token, a secret or a message
 * text. */
#include "secrets.h"

#include "harness.h"

TEST(no_log_contains_a_secret)
{
    const char *found = secrets_in_logs();

    ck_assert_msg(*found == '\0', "secrets in the logs:\n%s", found);
}

SUITE(logs, .timeout_s = 60)
