/* Reloads and starts that are refused with a precise message: nothing changes. The unit test
 * settings has all files that cannot be read. */
#include <busbar/module.h>

#include "wave.h"

static struct wave *wave;

static void patched(const void *from, const void *to, size_t size)
{
    size_t length;
    char *bytes = wave_bytes(1, &length);
    char *at = memmem(bytes, length, from, size);

    ck_assert_ptr_nonnull(at);
    memcpy(at, to, size);
    wave_replace(wave, bytes, length);
}

static void break_yaml(void)
{
    file_write(wave->host->conf, "http: [\n");
}

static void break_value(void)
{
    wave_write(wave, NULL, "wave:\n  greting: moin\n");
}

static void lose_file(void)
{
    ck_assert_int_eq(unlink(wave->file), 0);
}

static void truncate_file(void)
{
    size_t length;
    const char *bytes = wave_bytes(1, &length);

    wave_replace(wave, bytes, length / 2);
}

static void name_foreign(void)
{
    wave_write(wave, "\"/lib/x86_64-linux-gnu/libm.so.6\"", NULL);
}

struct head {
    size_t size;
    unsigned abi_major, abi_minor;
};

static void age_abi(void)
{
    struct head from = {sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR}, to = from;

    to.abi_major++;
    patched(&from, &to, sizeof from);
}

static void rename_symbol(void)
{
    patched("busbar_module", "busbar_mobile", 13);
}

static void fail_open(void)
{
    wave_write(wave, NULL, "wave:\n  fail: true\n");
}

static void fail_migration(void)
{
    wave_upgrade(wave, 3);
}

static void move_listener(void)
{
    const char *conf = host_configuration(&wave->spec), *at = strstr(conf, "127.0.0.1:0");

    file_write(wave->host->conf,
               text("%.*s127.0.0.1:1%s", (int)(at - conf), conf, at + strlen("127.0.0.1:0")));
}

static void add_loops(void)
{
    wave->spec.http = "  loops: 3\n";
    wave_write(wave, NULL, NULL);
    wave->spec.http = NULL;
}

static void change_depth(void)
{
    wave_write(wave, NULL, "wave:\n  depth: 2\n");
}

static const struct mistake {
    const char *name;
    void (*make)(void);
    const char *reason;                           /* in the output of `busbar reload` */
    enum { BY_RELOAD, BY_START, BY_CHECK } found; /* the first command that finds the mistake */
} mistakes[] = {
    {"yaml", break_yaml, ".yaml:", BY_CHECK},
    {"value", break_value, "wave.greting: ", BY_CHECK},
    {"missing", lose_file, "-wave.so: cannot be read: No such file", BY_CHECK},
    {"truncated", truncate_file, "-wave.so: is truncated: ", BY_CHECK},
    {"foreign", name_foreign, "is not a busbar module: it exports no busbar_module", BY_CHECK},
    {"abi", age_abi, "was built for ABI 2.", BY_CHECK},
    {"symbol", rename_symbol, "is not a busbar module", BY_CHECK},
    {"open", fail_open, "module wave: the sea is too rough", BY_START},
    {"migration", fail_migration, "wavelength", BY_RELOAD},
    {"listener", move_listener, "http.listen: cannot be changed by a reload", BY_RELOAD},
    {"threads", add_loops, "http.loops: cannot be changed by a reload", BY_RELOAD},
    {"depth", change_depth, "wave.depth: cannot be changed by a reload", BY_RELOAD},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

TEST(a_reload_with_a_mistake_is_refused_and_changes_nothing)
{
    const char *greeting = "hello";

    wave = wave_start("reload_no", NULL);
    for (size_t i = 0; i < MISTAKES; i++) {
        size_t from = host_log_size(wave->host);

        mistakes[i].make();
        wave_refused(wave, mistakes[i].reason);
        wave_expect(wave, 1, greeting);
        host_logs(wave->host, from, "reload refused"); /* a thread writes the line */
        ck_assert_uint_eq(host_logged(wave->host, "reload refused"), i + 1);
        ck_assert_uint_eq(host_logged(wave->host, text("wave 1 closes (%s)", greeting)), 0);
        wave_drained(wave);
        wave_upgrade(wave, 1);
        greeting = text("mended %zu", i);
        wave_write(wave, NULL, text("wave:\n  greeting: %s\n", greeting));
        wave_reload(wave);
        wave_expect(wave, 1, greeting);
        ck_assert_ptr_nonnull(
            strstr(wave_status(wave), text("reloads: %zu done, %zu refused", i + 1, i + 1)));
    }
}

/* `check` reports it before a start does. */
TEST_EACH(a_host_with_a_mistake_does_not_start, MISTAKES)
{
    const struct mistake *mistake = &mistakes[_i];

    if (mistake->found < BY_START)
        return;
    wave = wave_prepare(text("start_no_%s", mistake->name), NULL);
    mistake->make();
    if (mistake->found == BY_CHECK)
        ck_prints(wave->host, 1, mistake->reason, "check");
    ck_assert(!host_run(wave->host));
    ck_assert_msg(host_logged(wave->host, mistake->reason) == 1, "no \"%s\" in %s", mistake->reason,
                  file_text(wave->host->log));
    ck_assert_uint_eq(host_logged(wave->host, "listening"), 0);
    host_log_clean(wave->host);
}

SUITE(reload_refused, .timeout_s = 90)
