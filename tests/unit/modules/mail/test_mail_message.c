/* The text of a mail: its language, its values, and what hostile values cannot do. */
#include "modules/mail/message.h"
#include "suite.h"

static char *message_of(const char *subject, const char *body, const char *name)
{
    const struct bb_mail_text text = {"en", subject, body};
    const struct bb_mail_value values[] = {{"name", name}, {"none", NULL}};
    const struct mail_draft draft = {.from = "no-reply@example.com",
                                     .from_name = "Net, \"busbar\"",
                                     .to = "ada@example.com",
                                     .id = "id",
                                     .at_s = 1775044800,
                                     .text = &text,
                                     .values = BB_TABLE(values)};
    size_t length = 0;
    char *message = mail_message(&draft, &length);

    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(strlen(message), length);
    return message;
}

TEST(a_message_has_headers_and_a_body)
{
    char *message = message_of("Hello {name}", "Dear {name}{none},\n.{other} {service}", "Ada");

    ck_assert_str_eq(message, "Date: Wed, 01 Apr 2026 12:00:00 +0000\r\n"
                              "From: =?UTF-8?Q?Net=2C=20=22busbar=22?= <no-reply@example.com>\r\n"
                              "To: <ada@example.com>\r\n"
                              "Message-ID: <id@example.com>\r\n"
                              "Subject: Hello Ada\r\n"
                              "Auto-Submitted: auto-generated\r\n"
                              "MIME-Version: 1.0\r\n"
                              "Content-Type: text/plain; charset=UTF-8\r\n"
                              "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
                              "Dear Ada,\r\n.{other} Net, \"busbar\"\r\n");
    free(message);
}

TEST(control_characters_of_a_value_add_no_header_and_no_line)
{
    char *message = message_of("Hello {name}", "Dear {name}\n", "A\r\nBcc: b@example.com\n\n\x7f.");

    ck_assert_ptr_null(strstr(message, "\nBcc"));
    ck_assert_ptr_nonnull(strstr(message, "Subject: Hello A  Bcc: b@example.com   .\r\n"));
    ck_assert_ptr_nonnull(strstr(message, "\r\n\r\nDear A  Bcc: b@example.com   .\r\n"));
    free(message);
}

TEST(long_texts_are_folded_between_characters)
{
    char umlauts[401] = "";
    size_t full = 0, words = 0;

    for (int i = 0; i < 200; i++)
        strcat(umlauts, "\xc3\xbc");
    char *message = message_of("{name}", "{name} =\n", umlauts);

    for (const char *line = message, *end; (end = strstr(line, "\r\n")); line = end + 2) {
        ck_assert_msg(end - line <= 76, "%.*s", (int)(end - line), line);
        full += end - line == 76;
        words += strncmp(line, " =?UTF-8?Q?=C3=BC", 17) == 0 && end - line == 61;
    }
    ck_assert_uint_eq(full, 400 * 3 / 75);
    ck_assert_uint_eq(words, 17); /* between the first and the last one of 150 characters */
    ck_assert_ptr_nonnull(strstr(message, "\r\n =3D\r\n"));
    free(message);
    memset(umlauts, 'x', 61);
    umlauts[61] = '\0';
    for (int cut = 0; cut < 2; cut++) { /* a subject of up to 60 letters is not encoded */
        message = message_of("{name}", "", umlauts + cut);
        ck_assert_msg((strstr(message, "Subject: =?") == NULL) == cut, "%s", message);
        free(message);
    }
}

TEST(the_first_wanted_language_that_has_a_text_is_chosen)
{
    static const struct bb_mail_text texts[] = {{"en", "", ""}, {"de", "", ""}};
    static const char *const cases[][2] = {
        {"de", "de"},           {"de-AT,de;q=0.9,en;q=0.8", "de"},
        {"fr, en-GB", "en"},    {"fr", "de"},
        {NULL, "de"},           {"", "de"},
        {"den,enx;;,,, ", "de"}};
    const struct bb_table table = BB_TABLE(texts);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(mail_text_for(&table, cases[i][0], "de")->language, cases[i][1]);
    ck_assert_str_eq(mail_text_for(&table, "fr", "it")->language, "en");
}

SUITE(mail_message)
