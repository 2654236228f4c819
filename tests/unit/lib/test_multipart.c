/*
 * multipart/form-data. Every sample is fed whole, byte by byte, and cut at every place; the result
 * must be the same each time. A result is written as "name(filename)=data;" for each part.
 */
#include "core/lib/multipart.h"
#include "suite.h"

struct heard {
    char text[4096];
    size_t length;
};

static int hear(struct heard *heard, const char *bytes, size_t length)
{
    ck_assert_uint_lt(heard->length + length, sizeof heard->text);
    memcpy(heard->text + heard->length, bytes, length);
    heard->length += length;
    return 0;
}

static int hear_text(struct heard *heard, const char *text)
{
    return hear(heard, text, strlen(text));
}

static int part(void *arg, const struct multipart_part *part)
{
    hear_text(arg, part->name);
    if (part->filename) {
        hear_text(arg, "(");
        hear_text(arg, part->filename);
        hear_text(arg, ")");
    }
    return hear_text(arg, "=");
}

static int data(void *arg, const char *bytes, size_t length)
{
    return hear(arg, bytes, length);
}

static int end(void *arg)
{
    return hear_text(arg, ";");
}

static const struct multipart_calls calls = {part, data, end};

/* Feeds pieces that end at `cut` and then after every `step` bytes. Returns 0, or -1: malformed. */
static int feed(const char *bytes, size_t length, size_t cut, size_t step, struct heard *heard)
{
    struct multipart multipart;
    size_t at = 0, piece = cut;
    int failed = 0;

    *heard = (struct heard){.length = 0};
    ck_assert_int_eq(multipart_init(&multipart, "XyZ", &calls, heard), 0);
    while (!failed && at < length) {
        char *copy = malloc(piece + 1); /* separate, so that sanitizers detect overruns */

        if (at + piece > length)
            piece = length - at;
        memcpy(copy, bytes + at, piece);
        failed = multipart_feed(&multipart, copy, piece);
        free(copy);
        at += piece;
        piece = step;
    }
    if (failed)
        ck_assert_ptr_nonnull(multipart.problem);
    failed = failed || !multipart_complete(&multipart) ? -1 : 0;
    multipart_free(&multipart);
    return failed;
}

struct sample {
    const char *bytes;
    const char *heard; /* NULL: malformed */
};

#define HEAD(rest) "--XyZ\r\nContent-Disposition: form-data; " rest "\r\n\r\n"
#define LAST "\r\n--XyZ--\r\n"
#define B "Content-Disposition: form-data; name=b\r\n\r\n2"
#define BLANKS "                                                               " /* 63 */

static const struct sample samples[] = {
    {HEAD("name=\"a\"") "1" LAST, "a=1;"},
    {HEAD("name=a") "1\r\n" HEAD("name=b; filename=c.txt") "2" LAST, "a=1;b(c.txt)=2;"},
    {"\r\n" HEAD("name=\"a\"") "1" LAST, "a=1;"},
    {"preamble\r\n--XyZA\r\n" HEAD("name=\"a\"") "1" LAST "epilogue\r\n--XyZ\r\nno", "a=1;"},
    /* empty data, with and without the empty line's own CR LF */
    {HEAD("name=\"a\"") LAST, "a=;"},
    {"--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--XyZ--", "a=;"},
    /* text that only looks like a boundary */
    {HEAD("name=\"a\"") "\r\n" LAST, "a=\r\n;"},
    {HEAD("name=\"a\"") "x--XyZ" LAST, "a=x--XyZ;"},
    {HEAD("name=\"a\"") "x--XyZ--y" LAST, "a=x--XyZ--y;"},
    {HEAD("name=\"a\"") "\r\n--Xy" LAST, "a=\r\n--Xy;"},
    {HEAD("name=\"a\"") "\r\n--XyZA\r\n--XyZ A\r\n--XyZ -\r\n--XyZ-" LAST,
     "a=\r\n--XyZA\r\n--XyZ A\r\n--XyZ -\r\n--XyZ-;"},
    {HEAD("name=\"a\"") "\r\r\n-\r\n\r\n--\r\n--\r\r\n--Xy\r\n--XyZ\r\r\n--XyZ \r" LAST,
     "a=\r\r\n-\r\n\r\n--\r\n--\r\r\n--Xy\r\n--XyZ\r\r\n--XyZ \r;"},
    {HEAD("name=\"a\"") "\n--XyZ--\n" LAST, "a=\n--XyZ--\n;"},
    /* white space after a boundary is not part of the data */
    {HEAD("name=a") "1\r\n--XyZ" BLANKS "\t\r\n" B LAST, "a=1;b=2;"},
    {HEAD("name=a") "1\r\n--XyZ" BLANKS "\t \r\n" B LAST, NULL},
    /* parameters */
    {HEAD("NAME=\"a b\" ; FileName=\"..\\\\x\"") "1" LAST, "a b(..\\x)=1;"},
    {HEAD("name=\"a\"; filename=\"C:\\\"") "1" LAST, "a(C:\\)=1;"},
    {HEAD("name=\"a\"; filename=\"C:\\dir\\x\"") "1" LAST, "a(C:\\dir\\x)=1;"},
    {HEAD("name=\"a\"; filename=\"say \\\"hi\\\"\"") "1" LAST, "a(say \"hi\")=1;"},
    {HEAD("name=\"a\"; filename=\"\"") "1" LAST, "a()=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''%E2%82%AC%2f") "1" LAST, "a(€/)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''%ff") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=iso-8859-1''y") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''%00") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''a%0d%0ab") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''a%7fb") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''a%C2%85b") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''%C2%9F") "1" LAST, "a(x)=1;"},
    {HEAD("name=\"a\"; filename=\"x\"; filename*=UTF-8''%C2%A0") "1" LAST, "a(\xc2\xa0)=1;"},
    {HEAD("name=\"a\"; filename*=utf-8'en'%41%") "1" LAST, "a=1;"},
    {HEAD("filename=\"x;name=y\"; name=a") "1" LAST, "a(x;name=y)=1;"},
    /* headers */
    {"--XyZ\r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION:form-data;name=a\r\nX-Other: 1\r\n"
     "\r\n1" LAST,
     "a=1;"},
    {"--XyZ\r\nContent-Disposition: form-data;\r\n name=\"a\";\r\n\tfilename=b\r\n\r\n1" LAST,
     "a(b)=1;"},
    {"--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
     "1\r\n--XyZ\r\nContent-Disposition: form-data; name=b\r\nContent-Transfer-Encoding: 7BIT\r\n"
     "\r\n2" LAST,
     "a=1;b=2;"},
    /* malformed */
    {"", NULL},
    {"--XyZ", NULL},
    {"--XyZA\r\n", NULL},
    {"--XyZ--\r\n", NULL},
    {HEAD("name=\"a\"") "--XyZ" LAST, NULL},
    {HEAD("name=\"a\"") "1", NULL},
    {HEAD("name=\"a\"") "1\r\n--XyZ", NULL},
    {HEAD("name=\"a\"") "1\r\n--XyZ-", NULL},
    {HEAD("name=\"a\"") "1\n--XyZ--\n", NULL},
    {HEAD("filename=\"a\"") "1" LAST, NULL},
    {HEAD("name=\"\"") "1" LAST, NULL},
    {HEAD("name=\"a") "1" LAST, NULL},
    {HEAD("name=\"a\" b") "1" LAST, NULL},
    {HEAD("name") "1" LAST, NULL},
    {HEAD("name=a; name=b") "1" LAST, NULL},
    {HEAD("name=a; filename=b; filename=c") "1" LAST, NULL},
    {HEAD("name=\"a\x01\"") "1" LAST, NULL},
    {"--XyZ\r\n\r\n1" LAST, NULL},
    {"--XyZ\r\nContent-Type: text/plain\r\n\r\n1" LAST, NULL},
    {"--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\n1" LAST, NULL},
    {"--XyZ\r\nContent-Disposition form-data; name=a\r\n\r\n1" LAST, NULL},
    {"--XyZ\r\nContent-Disposition : form-data; name=a\r\n\r\n1" LAST, NULL},
    {"--XyZ\nContent-Disposition: form-data; name=a\n\n1" LAST, NULL},
    {"--XyZ\r\nContent-Disposition: form-data; name=a\n\r\n1" LAST, NULL},
    {"--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n"
     "\r\n1" LAST,
     NULL},
    {"--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Type: multipart/mixed; "
     "boundary=b\r\n\r\n1" LAST,
     NULL},
    {"--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n"
     "\r\n1" LAST,
     NULL},
};

static void expect(const struct sample *sample, size_t length, size_t cut, size_t step)
{
    struct heard heard;
    int failed = feed(sample->bytes, length, cut, step, &heard);

    ck_assert_msg((failed != 0) == (sample->heard == NULL), "cut at %zu: %s", cut, sample->bytes);
    if (!sample->heard)
        return;
    ck_assert_msg(
        heard.length == strlen(sample->heard) && !memcmp(heard.text, sample->heard, heard.length),
        "cut at %zu: %.*s instead of %s", cut, (int)heard.length, heard.text, sample->heard);
}

TEST_EACH(parts_are_the_same_for_all_cuts_of_the_input, (int)(sizeof samples / sizeof *samples))
{
    const struct sample *sample = &samples[_i];
    size_t length = strlen(sample->bytes);

    expect(sample, length, 1, 1);
    expect(sample, length, 2, 3);
    for (size_t cut = 1; cut <= length + 1; cut++)
        expect(sample, length, cut, length + 1);
}

TEST(data_may_be_any_bytes)
{
    char body[1024];
    struct heard heard;
    size_t head = (size_t)sprintf(body, HEAD("name=a"));

    for (int i = 0; i < 512; i++)
        body[head + (size_t)i] = (char)(i / 2);
    memcpy(body + head + 512, LAST, strlen(LAST));
    for (size_t step = 1; step < 40; step++) {
        ck_assert_int_eq(feed(body, head + 512 + strlen(LAST), step, step, &heard), 0);
        ck_assert_uint_eq(heard.length, 2 + 512 + 1);
        ck_assert_mem_eq(heard.text + 2, body + head, 512);
    }
}

TEST(a_nul_in_headers_is_malformed)
{
    static const char body[] = HEAD("name=\"a\0b\"") "1" LAST;
    struct heard heard;

    ck_assert_int_eq(feed(body, sizeof body - 1, 10, 10, &heard), -1);
}

TEST(headers_of_parts_are_limited)
{
    struct multipart multipart;
    struct heard heard = {.length = 0};
    char line[1000];
    int failed = 0, lines = 0;

    memset(line, 'x', sizeof line);
    ck_assert_int_eq(multipart_init(&multipart, "XyZ", &calls, &heard), 0);
    ck_assert_int_eq(multipart_feed(&multipart, "--XyZ\r\nX: ", 10), 0);
    while (!failed && ++lines < 100)
        failed = multipart_feed(&multipart, line, sizeof line);
    ck_assert_int_eq(lines, MULTIPART_HEADERS_MAX / 1000 + 1);
    multipart_free(&multipart);
}

static int refuse(void *arg, const struct multipart_part *part)
{
    (void)arg;
    (void)part;
    return -1;
}

TEST(a_failing_callback_ends_the_parsing)
{
    static const struct multipart_calls refusing = {refuse, data, end};
    static const char body[] = HEAD("name=a") "1" LAST;
    struct multipart multipart;
    struct heard heard = {.length = 0};

    ck_assert_int_eq(multipart_init(&multipart, "XyZ", &refusing, &heard), 0);
    ck_assert_int_eq(multipart_feed(&multipart, body, sizeof body - 1), -1);
    ck_assert_ptr_null(multipart.problem);
    ck_assert_uint_eq(heard.length, 0);
    multipart_free(&multipart);
}

#define TEN "0123456789"
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN

static const struct {
    const char *type, *boundary; /* NULL: missing or not valid; "": another type */
} types[] = {
    {"multipart/form-data; boundary=abc", "abc"},
    {"Multipart/Form-Data;BOUNDARY=\"a b\"", "a b"},
    {"multipart/form-data; charset=utf-8; boundary=abc; x=y", "abc"},
    {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
     "----WebKitFormBoundary7MA4YWxkTrZu0gW"},
    {"multipart/form-data; boundary=" SEVENTY, SEVENTY},
    {"multipart/form-data; boundary=" SEVENTY "0", NULL},
    {"multipart/form-data; boundary=", NULL},
    {"multipart/form-data; boundary=\"\"", NULL},
    {"multipart/form-data; boundary=\"a \"", NULL},
    {"multipart/form-data; boundary=\"a\r\"", NULL},
    {"multipart/form-data; boundary=\"a", NULL},
    {"multipart/form-data; boundary=a; boundary=b", NULL},
    {"multipart/form-data", NULL},
    {"multipart/form-data; boundary", NULL},
    {"multipart/form-database; boundary=a", ""},
    {"multipart/mixed; boundary=a", ""},
    {"application/json", ""},
};

TEST(the_boundary_is_found_in_the_content_type)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int found = multipart_boundary(types[i].type, boundary);

        if (types[i].boundary && *types[i].boundary) {
            ck_assert_msg(found == 1, "%s", types[i].type);
            ck_assert_str_eq(boundary, types[i].boundary);
        } else {
            ck_assert_msg(found == (types[i].boundary ? 0 : -1), "%s", types[i].type);
        }
    }
}

SUITE(multipart)
