/* Tests visits_cpp without a host: `make check`. */
#include <busbar/fake.h>

#include <cstdio>
#include <string_view>

namespace
{

int failed;

void expect(bool right, const char *what)
{
    std::printf("%s: %s\n", right ? "ok" : "FAILED", what);
    failed += !right;
}

std::string_view text(const char *found)
{
    return found ? found : "";
}

void counts_a_visit(bb_fake *fake)
{
    bb_fake_rows(fake, "INSERT INTO visits_cpp", 1, 1, "7");
    expect(bb_fake_call(fake, "POST", "/api/visits-cpp", R"({"name": "Ada"})") == 200, "a visit");
    const json_t *reply = bb_fake_reply(fake);

    expect(text(json_string_value(json_object_get(reply, "text"))) == "Ahoy, Ada!", "is greeted");
    expect(json_integer_value(json_object_get(reply, "visits")) == 7, "and counted");
    expect(text(bb_fake_parameter(fake, 0, 0)) == "ada@example.com", "for the caller");
    expect(text(bb_fake_parameter(fake, 0, 1)) == "3", "by the step of the settings");
}

void is_refused_without_a_name(bb_fake *fake)
{
    expect(bb_fake_call(fake, "POST", "/api/visits-cpp", "{}") == 400, "400 without a name");
    expect(text(bb_fake_field(fake)) == "name", "which names the field");
}

void says_when_the_database_is_away(bb_fake *fake)
{
    bb_fake_refuses(fake, "INSERT INTO visits_cpp", "", nullptr);
    expect(bb_fake_call(fake, "POST", "/api/visits-cpp", R"({"name": "Ada"})") == 503,
           "503 while the database is away");
}

void an_exception_is_an_answer()
{
    bb_fake *fake = bb_fake_new(&busbar_module);

    bb_fake_set(fake, "greeting", "no place");
    expect(!bb_fake_open(fake), "it opens");
    bb_fake_rows(fake, "INSERT INTO visits_cpp", 1, 1, "7");
    expect(bb_fake_call(fake, "POST", "/api/visits-cpp", R"({"name": "Ada"})") == 500,
           "500 where the code throws");
    expect(text(bb_fake_log(fake)).find("a handler threw: ") != std::string_view::npos,
           "and a line in the log");
    bb_fake_free(fake);
}

} // namespace

int main()
{
    bb_fake *fake = bb_fake_new(&busbar_module);

    bb_fake_set(fake, "greeting", "Ahoy, {name}!");
    bb_fake_set(fake, "step", "3");
    expect(!bb_fake_open(fake), "it opens");
    counts_a_visit(fake);
    is_refused_without_a_name(fake);
    says_when_the_database_is_away(fake);
    bb_fake_free(fake);
    an_exception_is_an_answer();
    return failed ? 1 : 0;
}
