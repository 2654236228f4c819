/*
 * `busbar bulk import FILE`, in three files: what is sent (import.c), its run (import_run.c), and
 * the rows that failed (import_failed.c). All of it on the command's fiber.
 */
#ifndef BULK_IMPORT_H
#define BULK_IMPORT_H

#include "modules/bulk/command/input.h"
#include "modules/bulk/command/terminal.h"
#include "modules/bulk/job/bulk.h"

/* Exit statuses beside 0; the last one is what shells say of a process that SIGINT has ended. */
enum { IMPORT_FAILED = 1, IMPORT_USAGE = 2, IMPORT_INTERRUPTED = 130 };

struct import {
    struct bulk_source source;
    struct bb_principal who;
    struct input input;
    struct terminal terminal;
    struct bulk_job job;        /* as it was made; */
    int64_t succeeded, failed;  /* and how it stands */
    char status[16];            /* "": it is gone */
    int64_t cancelled;          /* bulk_cancelled_behind() */
    int64_t moved_ms, heard_ms; /* when there was progress last, and an answer */
    bool alone;                 /* no host works */
    bool working;               /* this process does, just now */
};

/* Confirms the job and watches it to its end. The exit status. */
int import_run(struct bb_request *rq, struct import *import);

/* Prints the rows of the job that failed or were cancelled; nothing where there are none. */
void import_print_failed(struct bb_request *rq, struct import *import);

#endif
