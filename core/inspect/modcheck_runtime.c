/*
 * What the compilers' own runtime libraries put into a module's file, see modcheck.h. A language
 * makes each module carry some state: where C++ and Rust look for the handler of an exception, and
 * of Rust's standard library the hooks, locks and counters of its panics. It is their library's as
 * errno is the C library's: made for threads, and of no request and no generation. Code is never
 * unloaded, so what the runtime registers for the end of a thread or process stays good.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/inspect/modcheck.h"

/* With the length before it, as names are mangled. The last ones are parts of std. */
static bool is_rust_crate(const char *name)
{
    static const char *const crates[] = {"3std",       "4core",  "5alloc",     "12panic_unwind",
                                         "6object",    "5gimli", "9addr2line", "14rustc_demangle",
                                         "9hashbrown", "6memchr"};

    for (size_t i = 0; i < sizeof crates / sizeof crates[0]; i++)
        if (!strncmp(name, crates[i], strlen(crates[i])))
            return true;
    return false;
}

/* Mangled the old way, _ZN3std…, or as of late, _R…Cs<hash>_3std…: the first crate is whose it is.
 */
static bool is_rusts(const char *name)
{
    if (!strncmp(name, "_ZN", 3))
        return is_rust_crate(name + 3);
    if (strncmp(name, "_R", 2) != 0)
        return false;
    const char *crate = strstr(name, "Cs");

    for (crate = crate ? crate + 2 : ""; isalnum((unsigned char)*crate); crate++) {
    }
    return *crate == '_' && is_rust_crate(crate + 1);
}

bool modcheck_is_runtimes(const char *name)
{
    static const char *const beginnings[] = {
        "DW.ref.", /* the address of a personality, for exceptions */
        "__rust_",     "_rust_extern_with_linkage_",
        "completed.",  "__dso_handle", /* crtstuff's */
        "__TMC_END__", "__TMC_LIST__"};

    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return is_rusts(name);
}
