/* At the end of a run, no log has a password, a token, a secret or the text of a message. */
#include "secrets.h"

#include "harness.h"

TEST(message_texts_are_found_in_logs_unless_they_may_be_there_by_chance)
{
    static const char *const entry = "only this test writes this text to a log";
    const char *log = harness_path("found.log");
    json_t *sent =
        json_pack("[{ss}, {ss}]", "chatEntry", entry, "chatEntry", "to be found by chance");

    secrets_add_json(sent);
    json_decref(sent);
    file_write(log, "to be found by chance\n");
    ck_assert_str_eq(secrets_in_logs(), "");
    file_write(log, entry);
    ck_assert(strstr(secrets_in_logs(), entry) != NULL);
    unlink(log);
}

TEST(no_log_contains_a_secret)
{
    const char *found = secrets_in_logs();

    ck_assert_msg(*found == '\0', "secrets in the logs:\n%s", found);
}

SUITE(logs, .timeout_s = 60)
