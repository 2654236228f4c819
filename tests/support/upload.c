#include "upload.h"

#include <dirent.h>

enum { SETTLE_MS = 5000 };

static void upload_bytes(struct upload_body *body, const void *bytes, size_t length)
{
    body->bytes = realloc(body->bytes, body->length + length + 1);
    ck_assert_ptr_nonnull(body->bytes);
    memcpy(body->bytes + body->length, bytes, length);
    body->length += length;
    body->bytes[body->length] = '\0';
}

static void add_text(struct upload_body *body, const char *text)
{
    upload_bytes(body, text, strlen(text));
}

void upload_part(struct upload_body *body, const char *disposition, const void *bytes,
                 size_t length)
{
    add_text(body, text("%s--" UPLOAD_BOUNDARY "\r\nContent-Disposition: form-data; %s\r\n\r\n",
                        body->length ? "\r\n" : "", disposition));
    upload_bytes(body, bytes, length);
}

void upload_field(struct upload_body *body, const char *name, const char *value)
{
    upload_part(body, text("name=\"%s\"", name), value, strlen(value));
}

void upload_file(struct upload_body *body, const char *field, const char *name, const void *bytes,
                 size_t length)
{
    upload_part(body, text("name=\"%s\"; filename=\"%s\"", field, name), bytes, length);
}

void upload_close(struct upload_body *body)
{
    add_text(body, "\r\n--" UPLOAD_BOUNDARY "--\r\n");
}

struct answer *upload_send(const struct host *host, const char *method, const char *path,
                           const struct person *who, struct upload_body *body)
{
    upload_close(body);
    struct answer *answer = http_send(host, &(struct call){.method = method,
                                                           .path = path,
                                                           .token = who->token,
                                                           .type = UPLOAD_TYPE,
                                                           .body = body->bytes,
                                                           .length = body->length});

    free(body->bytes);
    *body = (struct upload_body){NULL, 0};
    return answer;
}

struct call upload_call(const char *path, const struct person *who, struct upload_body *body)
{
    upload_close(body);
    return (struct call){.method = "POST",
                         .path = path,
                         .token = who->token,
                         .type = UPLOAD_TYPE,
                         .body = kept(body->bytes),
                         .length = body->length};
}

char *upload_noise(unsigned seed, size_t length)
{
    static const char hard[] = "\r\n--" UPLOAD_BOUNDARY;
    char *bytes = kept(malloc(length + sizeof(uint32_t)));
    uint64_t state = seed;

    for (size_t i = 0; i < length; i += sizeof(uint32_t)) {
        state = state * 6364136223846793005 + 1442695040888963407;
        memcpy(bytes + i, (const uint32_t[]){(uint32_t)(state >> 32)}, sizeof(uint32_t));
    }
    /* boundaries without their end */
    for (size_t i = 0; i + sizeof hard < length; i += 997)
        memcpy(bytes + i, hard, sizeof hard - 2 - i % 7);
    return bytes;
}

int store_files(const char *directory)
{
    DIR *open = opendir(directory);
    const struct dirent *entry;
    int count = 0;

    if (!open)
        return -1;
    while ((entry = readdir(open))) {
        if (entry->d_type == DT_REG)
            count++;
        else if (entry->d_name[0] != '.')
            count += store_files(text("%s/%s", directory, entry->d_name));
    }
    closedir(open);
    return count;
}

void store_age(const char *directory)
{
    ck_assert_int_eq(system(text("find %s -type f -exec touch -d '2 hours ago' {} +", directory)),
                     0);
}

bool store_settles(const char *directory)
{
    const char *incoming = text("%s/incoming", directory);

    WAIT_FOR(store_files(incoming) <= 0, SETTLE_MS);
    return store_files(incoming) <= 0;
}
