/* Tests hello without a host: `make check`. */
#include <busbar/fake.h>
#include <stdio.h>
#include <string.h>

extern const struct bb_module busbar_module;

static int failed;

static void expect(bool right, const char *what)
{
    printf("%s: %s\n", right ? "ok" : "FAILED", what);
    failed += !right;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

static void greets_with_the_count(struct bb_fake *fake)
{
    bb_fake_rows(fake, "SELECT n FROM", 1, 1, "7");
    expect(bb_fake_call(fake, "GET", "/api/hello", NULL) == 200, "the caller is greeted");
    expect(!strcmp(text(bb_fake_reply(fake), "greeting"), "ahoy"), "as the setting says");
    expect(json_integer_value(json_object_get(bb_fake_reply(fake), "messages")) == 7,
           "with the count that the database has");
    expect(!strcmp(bb_fake_parameter(fake, 0, 0), "ada@example.com"), "of the caller");
}

static void is_honest_when_the_database_is_away(struct bb_fake *fake)
{
    bb_fake_refuses(fake, "SELECT n FROM", "", NULL);
    expect(bb_fake_call(fake, "GET", "/api/hello", NULL) == 503, "503 while it is away");
    bb_fake_refuses(fake, "INSERT INTO hello_count", "", NULL);
    bb_fake_raise(fake, "message.new", "{\"message\": {\"username\": \"bo@example.com\"}}");
    expect(strstr(bb_fake_log(fake), "was not counted") != NULL, "a lost count is logged");
}

static void counts_each_message(struct bb_fake *fake)
{
    bb_fake_raise(fake, "message.new", "{\"message\": {\"username\": \"bo@example.com\"}}");
    expect(!strncmp(bb_fake_statement(fake, 0), "INSERT INTO hello_count", 23), "a message counts");
    expect(!strcmp(bb_fake_parameter(fake, 0, 0), "bo@example.com"), "for its author");
}

int main(void)
{
    struct bb_fake *fake = bb_fake_new(&busbar_module);

    bb_fake_set(fake, "greeting", "ahoy");
    expect(!bb_fake_open(fake), "it opens");
    greets_with_the_count(fake);
    is_honest_when_the_database_is_away(fake);
    counts_each_message(fake);
    bb_fake_free(fake);
    return failed ? 1 : 0;
}
