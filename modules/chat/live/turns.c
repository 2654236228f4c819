/* The lagging listeners, and which of them is next. */
#include "modules/chat/live/listeners.h"

void listeners_set_behind(struct listeners *all, struct chat_listener *listener, bool behind)
{
    if (listener->behind == behind)
        return;
    listener->behind = behind;
    if (behind) {
        all->behind_count++;
        listener->before_behind = NULL;
        listener->next_behind = all->behind;
        if (listener->next_behind)
            listener->next_behind->before_behind = listener;
        all->behind = listener;
        return;
    }
    all->behind_count--;
    if (listener->next_behind)
        listener->next_behind->before_behind = listener->before_behind;
    if (listener->before_behind)
        listener->before_behind->next_behind = listener->next_behind;
    else
        all->behind = listener->next_behind;
}

/*
 * Orders by the account that has waited longest, then by the listener of it that has waited
 * longest.
 */
static bool before(const struct chat_listener *a, const struct chat_listener *b)
{
    if (a->account->turn != b->account->turn)
        return a->account->turn < b->account->turn;
    return a->turn != b->turn ? a->turn < b->turn : a->number < b->number;
}

struct chat_listener *listeners_turn(struct listeners *all,
                                     bool (*ready)(const struct chat_listener *listener))
{
    struct chat_listener *found = NULL;

    for (struct chat_listener *at = all->behind; at; at = at->next_behind)
        if ((!found || before(at, found)) && ready(at))
            found = at;
    if (found)
        found->turn = found->account->turn = ++all->turns;
    return found;
}
