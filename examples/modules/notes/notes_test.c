/* Tests notes without a host: `make check`. */
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

static void creates_a_note_and_its_event(struct bb_fake *fake)
{
    expect(bb_fake_call(fake, "POST", "/api/notes", "{\"text\": \"buy a meter\"}") == 201,
           "a note is created");
    expect(json_integer_value(json_object_get(bb_fake_reply(fake), "id")) > 0, "with an id");
    expect(bb_fake_event(fake, 0) && !strcmp(bb_fake_event(fake, 0), "note.created"),
           "its event is raised");
    expect(!strcmp(bb_fake_audience(fake, 0)->emails[0], "ada@example.com"), "for its author");
}

static void refuses_bad_notes(struct bb_fake *fake)
{
    expect(bb_fake_call(fake, "POST", "/api/notes", "{\"text\": \" \"}") == 400, "none is blank");
    bb_fake_refuses(fake, "busbar_require", "BB409", NULL);
    expect(bb_fake_call(fake, "POST", "/api/notes", "{\"text\": \"one more\"}") == 409,
           "one too many is refused");
    expect(!bb_fake_event(fake, 0), "without an event");
}

static void lists_page_by_page(struct bb_fake *fake)
{
    bb_fake_rows(fake, "SELECT id, body", 2, 2, "7", "a", "8", "b");
    expect(bb_fake_call(fake, "GET", "/api/notes?limit=1", NULL) == 200, "a page is listed");
    expect(json_array_size(bb_fake_reply(fake)) == 1, "with as many notes as asked for");
    expect(bb_fake_replied(fake, "Link") && strstr(bb_fake_replied(fake, "Link"), "after=7"),
           "and the address of the next page");
}

int main(void)
{
    struct bb_fake *fake = bb_fake_new(&busbar_module);

    bb_fake_set(fake, "per_account", "10");
    expect(!bb_fake_open(fake), "it opens");
    creates_a_note_and_its_event(fake);
    refuses_bad_notes(fake);
    lists_page_by_page(fake);
    bb_fake_free(fake);
    return failed ? 1 : 0;
}
