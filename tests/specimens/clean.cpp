/*
 * A module in C++ without a fault; each macro adds one fault, as in clean.c. Features of C++ itself
 * are not faults: destructors, exceptions, templates of the standard library.
 */
#include <busbar/busbar.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

#ifdef REFUSAL /* a stripped file does not show that this is not data */
struct refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};
#else
using refusal = std::runtime_error;
#endif

class visitor
{
  public:
    explicit visitor(std::string name) : name(std::move(name))
    {
    }
    virtual ~visitor()
    {
        if (name.empty())
            std::abort();
    }
    std::string name;
};

#ifdef DATA
int calls = 7;
#endif

#ifdef THREAD
thread_local int depth = 3;
#endif

#ifdef CONSTRUCTOR
struct early {
    early()
    {
        std::abort();
    }
} const early;
#endif

int count(const char *text)
{
    std::map<std::string, std::vector<visitor>> found;

    found[text].emplace_back(text);
    if (found.size() != 1)
        throw refusal(std::to_string(found.size()));
#ifdef DATA
    calls++;
#endif
#ifdef THREAD
    depth++;
#endif
    return static_cast<int>(found[text].size());
}

int get(bb_request *rq)
{
    try {
        return bb_reply(rq, 200, json_pack("{s:i}", "n", count(bb_client_address(rq))));
    } catch (const refusal &) {
    } catch (const std::exception &) {
    }
    return bb_fail_text(rq, 500, nullptr);
}

constexpr bb_route routes[] = {
    {.method = "GET", .path = "/specimen", .roles = BB_ANYONE, .handler = get},
};

} // namespace

const bb_module busbar_module = {
    BB_MODULE_HEAD("specimen", "1.0.0"),
    .routes = BB_TABLE(routes),
};
