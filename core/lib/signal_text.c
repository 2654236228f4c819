#include "core/lib/signal_text.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

void signal_text_flush(struct signal_text *text)
{
    size_t done = 0;

    while (text->fd >= 0 && done < text->used) {
        ssize_t wrote = write(text->fd, text->bytes + done, text->used - done);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            text->cut = true;
            break;
        }
        done += (size_t)wrote;
    }
    text->used = 0;
}

static void put(struct signal_text *text, char c)
{
    if (text->used + 1 == sizeof text->bytes && text->fd >= 0)
        signal_text_flush(text);
    if (text->used + 1 < sizeof text->bytes)
        text->bytes[text->used++] = c;
}

static void put_text(struct signal_text *text, const char *from)
{
    for (; from && *from; from++)
        put(text, *from);
}

static void put_digits(struct signal_text *text, unsigned long long number, unsigned base)
{
    char digits[24];
    size_t count = 0;

    do
        digits[count++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (count)
        put(text, digits[--count]);
}

void signal_text_add(struct signal_text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            put(text, *format);
        } else if (*++format == 's') {
            put_text(text, va_arg(args, const char *));
        } else if (*format == '#') {
            put_text(text, "0x");
            put_digits(text, va_arg(args, unsigned long), 16);
            format += 2;
        } else {
            long long number = va_arg(args, long long);

            put_text(text, number < 0 ? "-" : NULL);
            put_digits(text, number < 0 ? -(unsigned long long)number : (unsigned long long)number,
                       10);
            format += 2;
        }
    }
    va_end(args);
}

const char *signal_text_end(struct signal_text *text)
{
    text->bytes[text->used] = '\0';
    return text->bytes;
}
