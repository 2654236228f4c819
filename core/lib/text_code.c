/* Random bytes and UUIDs. */
#include <openssl/err.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/lib/shared_clock.h"
#include "core/lib/text.h"

/* Without randomness there are no ids; a server that cannot make them must not go on. */
static void fill_random(unsigned char *bytes, size_t length)
{
    if (RAND_bytes(bytes, (int)length) == 1)
        return;
    ERR_clear_error();
    if (getrandom(bytes, length, 0) != (ssize_t)length)
        abort();
}

void text_random(unsigned char *out, size_t length)
{
    static _Thread_local unsigned char buffer[TEXT_RANDOM_MAX * 32];
    static _Thread_local size_t left;

    if (left < length) {
        fill_random(buffer, sizeof(buffer));
        left = sizeof(buffer);
    }
    left -= length;
    memcpy(out, buffer + left, length);
}

void text_uuid7(char out[TEXT_UUID_SIZE])
{
    unsigned char bytes[16];
    uint64_t now = (uint64_t)shared_clock_ms();

    for (int i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(now >> (40 - 8 * i));
    text_random(bytes + 6, 10);
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x70);
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);

    char digits[33];

    text_hex(bytes, sizeof(bytes), digits);
    for (int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            *out++ = '-';
        *out++ = digits[i];
    }
    *out = '\0';
}
