/*
 * A module without a fault; each macro adds one fault, which `busbar modcheck` must find. See
 * scripts/install.sh.
 */
#include <busbar/busbar.h>

static int get(struct bb_request *rq)
{
    return bb_reply(rq, 200, json_object());
}

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/specimen", .roles = BB_ANYONE, .handler = get},
};

#ifdef EXPORTS
BB_EXPORT int helper(int n);
int helper(int n)
{
    return n + 1;
}
#endif

#ifdef DATA
static int calls = 7;
__attribute__((used)) static int *counter(void)
{
    calls++;
    return &calls;
}
#endif

#ifdef ZEROS
static char table[4096];
__attribute__((used)) static char *zeros(void)
{
    return table;
}
#endif

#ifdef THREAD
static _Thread_local int depth;
__attribute__((used)) static int deeper(void)
{
    return ++depth;
}
#endif

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void early(void)
{
    abort();
}
#endif

#ifdef DESTRUCTOR
__attribute__((destructor)) static void late(void)
{
    abort();
}
#endif

#ifdef INIT
BB_EXPORT void first(void);
void first(void)
{
}
#endif

#ifdef IFUNC
static int one(void)
{
    return 1;
}
static int (*choose(void))(void)
{
    return one;
}
__attribute__((ifunc("choose"), used, visibility("hidden"))) int chosen(void);
__attribute__((used)) static int call_chosen(void)
{
    return chosen();
}
#endif

#ifdef COPY
__attribute__((used)) static int OPENSSL_init_crypto(void)
{
    return 1;
}
#endif

#ifdef STACK
__asm__(".section .note.GNU-stack,\"x\",@progbits\n.text");
#endif

#ifdef TEXTREL
__asm__(".text\n.globl textrel\n.hidden textrel\ntextrel: .quad busbar_module\n.previous");
#endif

#ifdef WRITABLE
BB_EXPORT struct bb_module busbar_module = {
#else
BB_EXPORT const struct bb_module busbar_module = {
#endif
    BB_MODULE_HEAD("specimen", "1.0.0"),
    .routes = BB_TABLE(routes),
};
