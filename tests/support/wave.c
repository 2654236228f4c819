#include "wave.h"

#define SOON_MS 10000

static char *bytes_of(const char *path, size_t *length)
{
    FILE *in = fopen(path, "re");

    ck_assert_msg(in != NULL, "%s cannot be read", path);
    ck_assert_int_eq(fseek(in, 0, SEEK_END), 0);
    *length = (size_t)ftell(in);
    rewind(in);
    char *bytes = kept(malloc(*length));

    ck_assert_uint_eq(fread(bytes, 1, *length, in), *length);
    fclose(in);
    return bytes;
}

char *wave_bytes(int version, size_t *length)
{
    return bytes_of(harness_test_module(text("module_wave%d", version)), length);
}

void wave_replace(const struct wave *wave, const void *bytes, size_t length)
{
    const char *newer = text("%s.new", wave->file);
    FILE *out = fopen(newer, "we");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, length, out), length);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_int_eq(rename(newer, wave->file), 0);
}

void wave_exchange(const struct wave *wave, int version, size_t more)
{
    size_t length;
    const char *bytes = wave_bytes(version, &length);
    char *longer = kept(calloc(1, length + more));

    memcpy(longer, bytes, length);
    wave_replace(wave, longer, length + more);
}

void wave_upgrade(const struct wave *wave, int version)
{
    wave_exchange(wave, version, 0);
}

static void fill(struct wave *wave, const char *modules, const char *more)
{
    wave->spec.modules = text("[auth, health, %s]", modules ? modules : text("\"%s\"", wave->file));
    wave->spec.more = more;
}

void wave_write(struct wave *wave, const char *modules, const char *more)
{
    fill(wave, modules, more);
    file_write(wave->host->conf, host_configuration(&wave->spec));
}

struct wave *wave_prepare(const char *name, const char *more)
{
    struct wave *wave = kept(calloc(1, sizeof *wave));

    wave->file = harness_path(text("%s-wave.so", name));
    wave->spec =
        (struct host_spec){.name = text("%s", name), .database = database_make(the_postgres, name)};
    wave_upgrade(wave, 1);
    fill(wave, NULL, more);
    wave->host = host_prepare(&wave->spec);
    return wave;
}

struct wave *wave_start(const char *name, const char *more)
{
    struct wave *wave = wave_prepare(name, more);

    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "PostgreSQL responds");
    wave_expect(wave, 1, "hello");
    return wave;
}

void wave_reload(const struct wave *wave)
{
    ck_prints(wave->host, 0, "is live", "reload");
}

void wave_refused(const struct wave *wave, const char *reason)
{
    const char *said = ck_prints(wave->host, 1, reason, "reload");

    ck_assert_msg(strstr(said, "refused: ") == said, "%s", said);
}

void wave_expect(const struct wave *wave, int version, const char *greeting)
{
    struct answer *answer = ck_status(http(wave->host, "GET", "/api/wave", NULL, NULL), 200);

    ck_assert_int_eq(answer_int(answer, "version"), version);
    ck_assert_str_eq(answer_text(answer, "greeting"), greeting);
}

char *wave_status(const struct wave *wave)
{
    return host_says(wave->host, 0, "status");
}

void wave_status_soon(const struct wave *wave, const char *part)
{
    WAIT_UNTIL_MSG(strstr(wave_status(wave), part) != NULL, SOON_MS, "no \"%s\" in:\n%s", part,
                   wave_status(wave));
}

void wave_drained(const struct wave *wave)
{
    static const char mark[] = "\ngeneration ";
    const char *first = NULL;

    WAIT_UNTIL_MSG((first = strstr(wave_status(wave), mark)) && !strstr(first + 1, mark), SOON_MS,
                   "%s", wave_status(wave));
}
