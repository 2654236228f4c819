#include "core/lib/signal_text.h"

#include <errno.h>
#include <unistd.h>

void signal_text_flush(struct signal_text *words)
{
    size_t done = 0;

    while (words->fd >= 0 && done < words->used) {
        ssize_t wrote = write(words->fd, words->bytes + done, words->used - done);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            words->cut = true;
            break;
        }
        done += (size_t)wrote;
    }
    words->used = 0;
}

static void put(struct signal_text *words, char c)
{
    if (words->used + 1 == sizeof words->bytes && words->fd >= 0)
        signal_text_flush(words);
    if (words->used + 1 < sizeof words->bytes)
        words->bytes[words->used++] = c;
}

void signal_text_text(struct signal_text *words, const char *text)
{
    for (; text && *text; text++)
        put(words, *text);
}

static void put_digits(struct signal_text *words, uint64_t number, unsigned base)
{
    char digits[24];
    size_t count = 0;

    do
        digits[count++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (count)
        put(words, digits[--count]);
}

void signal_text_number(struct signal_text *words, int64_t number)
{
    if (number < 0)
        put(words, '-');
    put_digits(words, number < 0 ? -(uint64_t)number : (uint64_t)number, 10);
}

void signal_text_hex(struct signal_text *words, uintptr_t number)
{
    signal_text_text(words, "0x");
    put_digits(words, number, 16);
}

const char *signal_text_end(struct signal_text *words)
{
    words->bytes[words->used] = '\0';
    return words->bytes;
}
