/*
 * Work in the background, that of threads with a lower priority. While requests are answered late
 * it leaves a processor to those who answer: so many threads work at the same time as there are
 * processors but one, and one at least. Process-wide; any thread.
 */
#ifndef CORE_BACKGROUND_H
#define CORE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

/* Answers to several accounts are late, and count so until then, by the monotonic clock. */
void background_give_way(int64_t until_ms);

/* Whether they do now. */
bool background_gives_way(void);

/* Around a piece of such work. The first waits while as many threads work as may, a quarter of a
 * second at most. */
void background_begin(void);
void background_end(void);

#endif
