#include "core/lib/frames.h"

#include <execinfo.h>
#include <ucontext.h>

enum { OWN = 8 }; /* maximum number of the handler's own frames */

uintptr_t frames_place(const void *context)
{
    const ucontext_t *place = context;

#if defined(__x86_64__)
    return (uintptr_t)place->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)place->uc_mcontext.pc;
#else
    (void)place;
    return 0;
#endif
}

/*
 * If the interrupted address is not executable, the caller's address is where a call has stored it.
 */
static uintptr_t caller_of_nothing(const void *context)
{
    const ucontext_t *place = context;

#if defined(__x86_64__)
    return *(const uintptr_t *)place->uc_mcontext.gregs[REG_RSP]; // NOLINT
#elif defined(__aarch64__)
    return (uintptr_t)place->uc_mcontext.regs[30];
#else
    (void)place;
    return 0;
#endif
}

static void add(struct frames *frames, uintptr_t address)
{
    if (!address || frames->count == FRAMES_MAX)
        return;
    frames->list[frames->count++] =
        (struct frame){.address = address, .object = mapped_files_find(address)};
}

void frames_collect(struct frames *frames, const void *context)
{
    void *found[FRAMES_MAX + OWN];
    uintptr_t place = frames_place(context);
    int at = 0;

    frames->count = 0;
    add(frames, place);
    if (!mapped_files_find(place))
        add(frames, caller_of_nothing(context));
    int count = backtrace(found, FRAMES_MAX + OWN);

    while (at < count && (uintptr_t)found[at] != place)
        at++;
    for (at = at < count ? at + 1 : 1; at < count; at++) /* from here: no handler frame was found */
        add(frames, (uintptr_t)found[at]);
}

/* A return address follows the call, which may have been the last instruction of the function. */
void frames_name(struct frames *frames)
{
    for (size_t i = 0; i < frames->count; i++) {
        struct frame *frame = &frames->list[i];

        if (frame->object &&
            !mapped_files_symbol(frame->object, frame->address - (i > 0), frame->symbol,
                                 sizeof frame->symbol, &frame->into))
            frame->symbol[0] = '\0';
    }
}

const struct object *frames_module(const struct frames *frames)
{
    for (size_t i = 0; i < frames->count; i++)
        if (frames->list[i].object && frames->list[i].object->module)
            return frames->list[i].object;
    return NULL;
}

void frame_words(struct signal_text *words, const struct frame *frame)
{
    if (*frame->symbol) {
        signal_text_text(words, frame->symbol);
        signal_text_text(words, "+");
        signal_text_hex(words, frame->into);
    } else {
        signal_text_hex(words, frame->address - (frame->object ? frame->object->base : 0));
    }
    signal_text_text(words, " (");
    signal_text_text(words, frame->object ? frame->object->name : "unknown");
    signal_text_text(words, ")");
}
