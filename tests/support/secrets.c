#include "secrets.h"

#include <fcntl.h>

#include "harness.h"

#define SECRET_MIN 8
#define MESSAGE_MIN 24
#define SECRET_MAX 2000

static char *secrets_path;

void secrets_open(const char *path)
{
    secrets_path = text("%s", path);
    file_write(secrets_path, "");
}

void secrets_add(const char *secret)
{
    size_t length = strlen(secret);

    if (!secrets_path || length < SECRET_MIN || length > SECRET_MAX || strchr(secret, '\n'))
        return;
    const char *line = text("%s\n", secret);
    int fd = open(secrets_path, O_WRONLY | O_APPEND);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, line, length + 1), (ssize_t)length + 1);
    close(fd);
}

/* Short message texts are words that a log may have by chance. */
static bool is_secret(const char *key, size_t length)
{
    static const char *const keys[] = {"password", "current",      "new",   "accessToken",
                                       "secret",   "access_token", "token", "client_secret"};

    if (!strcmp(key, "chatEntry"))
        return length >= MESSAGE_MIN;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!strcmp(key, keys[i]))
            return true;
    }
    return false;
}

void secrets_add_json(const json_t *json)
{
    const char *key;
    json_t *value;
    size_t index;

    if (json_is_array(json)) {
        json_array_foreach (json, index, value)
            secrets_add_json(value);
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)json, key, value) {
        if (json_is_string(value) && is_secret(key, json_string_length(value)))
            secrets_add(json_string_value(value));
        else if (json_is_object(value) || json_is_array(value))
            secrets_add_json(value);
    }
}

/* grep -F searches for all secrets in one pass. The secrets themselves come after the lines. */
char *secrets_in_logs(void)
{
    const char *found = harness_path("secrets-found");
    const char *lines = text("$(cat '%s'/*.log '%s'/*.log | grep -aF -f '%s' | head -20)",
                             harness_path("."), harness_shared_path("."), secrets_path);
    const char *command = text("lines=\"%s\"; [ -z \"$lines\" ] || { echo \"$lines\";"
                               " echo \"$lines\" | grep -aoF -f '%s' | sort -u; }",
                               lines, secrets_path);
    const char *argv[] = {"sh", "-c", command, NULL};

    unlink(found);
    process_run(&(struct process_spec){.argv = argv, .log = found});
    return file_text(found);
}
