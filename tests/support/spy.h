/* Interface of module_spy.c for the suites. */
#ifndef TESTS_SPY_H
#define TESTS_SPY_H

/*
 * Waits for the spy's tables in a database: a host listens before a module's schema is there, and
 * until then the spy refuses every event.
 */
void spy_await(const char *database);

#endif
