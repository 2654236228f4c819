/*
 * The supervisor (core/main/main.c) and the server process share an anonymous file and some
 * sockets. The supervisor creates both, and each server process inherits them. When a server
 * process dies, its listening sockets stay open, so connections wait for the next server process,
 * and none is refused. In the file, a server process stores when it began to serve and why it ends.
 * The file is not mapped, so that stray memory writes of a module cannot change it.
 *
 * Without a supervisor the functions for the server process have no effect, unless noted.
 *
 * This file, main.c, crash.c, hang.c and thread.c keep four promises of docs/operating.md: the
 * listener never closes, a crash names its module, a hang is named and ended, and a module that
 * keeps crashing is disabled.
 */
#ifndef CORE_SUPERVISED_H
#define CORE_SUPERVISED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The environment variable with the descriptor number of the shared file. */
#define SUPERVISED_VARIABLE "BUSBAR_SUPERVISED"

/* ---- the crash history, which the supervisor keeps, and passes to each server process ---- */

enum {
    HISTORY_NAME = 64,
    /* one for each module that a configuration may have, the host, and unknown modules */
    HISTORY_ROWS = 66,
    HISTORY_REPORT = 320,
    QUARANTINE_CRASHES = 3,
    QUARANTINE_MS = 60000
};

/* Describes the end of a server process. */
struct crash_note {
    char module[HISTORY_NAME];   /* the module at fault; "": unknown */
    char file[HISTORY_NAME];     /* its file without directory and .so; "": none */
    char how[HISTORY_NAME];      /* "SIGSEGV", "exit" … */
    char report[HISTORY_REPORT]; /* path of the report; "": none */
};

struct crash_row {
    char module[HISTORY_NAME], file[HISTORY_NAME];
    unsigned count;
    unsigned in_vain;                  /* consecutive starts that the module made fail */
    int64_t at_ms[QUARANTINE_CRASHES]; /* times of the last crashes, monotonic; 0: none */
    bool out;                          /* the module is disabled */
};

struct crash_history {
    unsigned restarts; /* number of server processes started after the first one */
    struct crash_row rows[HISTORY_ROWS];
    size_t row_count;
    struct crash_note last; /* end of the previous process; none if last.how is "" */
};

/*
 * Records a crash. Quarantines the module if this was its third crash within a minute, or its third
 * consecutive failed start. `served`: whether the server process had begun to serve.
 */
void history_add(struct crash_history *history, const struct crash_note *note, bool served,
                 int64_t now_ms);

/* Ends the quarantine of all modules. */
void history_forgive(struct crash_history *history);

/* Returns the row of a disabled module by the name of the file or module; NULL: none. */
const struct crash_row *history_out(const struct crash_history *history, const char *name);

/* ---- the file, and the sockets ---- */

enum { SUPERVISED_SOCKETS = 8 /* of each family */, SUPERVISED_ADDRESS = 320 };

struct supervised_file {
    struct crash_history history;          /* at the start of this server process */
    int sockets[2 * SUPERVISED_SOCKETS];   /* first half: IPv4; second half: IPv6; -1: none */
    char listening_at[SUPERVISED_ADDRESS]; /* http.listen when the sockets began to listen */
    struct worker_state {
        struct crash_note note; /* why the process is about to end; unknown if note.how is "" */
        int64_t served_ms;      /* when it began to serve, monotonic; 0: not yet */
        bool stopping;          /* it was asked to stop */
        bool forgiven;          /* a reload has enabled the disabled modules again */
        bool json;              /* its log has the format JSON */
    } worker;
};

/* For the supervisor: closes sockets that do not listen, and creates new ones in their place. */
void supervised_renew_sockets(int sockets[2 * SUPERVISED_SOCKETS]);

/* Reads the inherited file, and gets the inherited sockets. Call once, before creating threads. */
void supervised_begin(void);

/* Returns whether there is a supervisor. Any thread. */
bool supervised(void);

/* Ends the quarantine of all modules, here and in the supervisor. Call after a reload. */
void supervised_forgive(void);

/* Sets the log format of the supervisor. */
void supervised_log(bool json);

/* Records that this process is about to end. Async-signal-safe. */
void supervised_crashed(const struct crash_note *note);

/*
 * Stores the descriptors of the sockets on which a previous server process listened at this
 * address, and returns their number. The caller owns the sockets. If they listen at another
 * address, because the setting has changed, shuts them down for all processes and returns 0.
 */
size_t supervised_listening(const char *address, int fds[SUPERVISED_SOCKETS]);

/*
 * Returns a non-blocking stream socket of the family: an unused one of the shared sockets, which
 * stay open when this process ends, or else a new one; -1 with errno.
 */
int supervised_socket(int family);

/* Records that the sockets listen at this address. */
void supervised_listens(const char *address);

/* Returns the history at the start of this process; empty without a supervisor. */
const struct crash_history *supervised_history(void);

/*
 * ---- reports to the service manager and the supervisor ----
 *
 * sd_notify() sends sd_notify(3) datagrams to the socket named by $NOTIFY_SOCKET. If that variable
 * is not set, nothing is sent; failures are ignored. A unit of systemd needs NotifyAccess=all,
 * because both the supervisor and the server process send datagrams. Any thread. Never waits.
 */

void sd_notify(const char *text);

/* Reports that the host is ready. Call after the start and each reload, even a failed one. */
void sd_notify_ready(void);

/* Reports that a reload begins; sd_notify_ready() reports its end. */
void sd_notify_reloading(void);

/* Reports that the host has begun to stop. */
void sd_notify_stopping(void);

/* ---- protection of the supervisor and of server processes ---- */

/*
 * Copies the environment to other memory, and erases it in /proc/PID/environ, because it may
 * contain keys and passwords. getenv() still finds all variables, but texts that it returned before
 * this call become invalid. If memory runs out, nothing changes. Call at the start of main(),
 * before threads are created.
 */
void guard_environment(void);

/*
 * Makes this process ignore signals that it does not use and that would end it, and prevents it
 * from gaining privileges by executing a file. Child processes inherit these restrictions.
 */
void guard_process(void);

#endif
