/*
 * `busbar bulk import FILE`, in three files: reading and checking the file (import.c), running the
 * job (import_run.c), and printing the rows that failed (import_failed.c). Everything runs on the
 * command's fiber.
 */
#ifndef BULK_IMPORT_H
#define BULK_IMPORT_H

#include "modules/bulk/command/input.h"
#include "modules/bulk/command/terminal.h"
#include "modules/bulk/job/bulk.h"

/* Exit statuses other than 0; 130 is what shells report for a process that SIGINT has ended. */
enum { IMPORT_FAILED = 1, IMPORT_USAGE = 2, IMPORT_INTERRUPTED = 130 };

struct import {
    struct bulk_source source;
    struct bb_principal who;
    struct input input;
    struct terminal terminal;
    struct bulk_job job;        /* as it was created */
    int64_t succeeded, failed;  /* current counts of the job */
    char status[16];            /* current status of the job; "": it was deleted */
    int64_t cancelled;          /* bulk_cancelled_behind() */
    int64_t moved_ms, heard_ms; /* last progress; last answer from the database */
    bool alone;                 /* no host stores rows */
    bool working;               /* this process is storing a batch */
};

/* Confirms the job and watches it to its end. Returns the exit status. */
int import_run(struct bb_request *rq, struct import *import);

/* Prints the rows of the job that failed or were cancelled, if there are any. */
void import_print_failed(struct bb_request *rq, struct import *import);

#endif
