/*
 * `busbar bulk import FILE`: does the same as an upload over HTTP, from a shell. The file becomes a
 * job (take.c), the job is confirmed and watched to its end, and its failed rows are printed.
 *
 * Anyone who has the database settings is the operator: the job has no account, and acts with the
 * rights of an Admin in the organization that was named.
 */
#include <string.h>
#include <unistd.h>

#include "modules/bulk/command/import.h"

#define PIPED_NAME "standard-input.csv"

/* ---- the file ---- */

static void warn(struct bb_request *rq, void *arg, const char *text)
{
    (void)rq;
    terminal_line(arg, "busbar: %s", text);
}

static const char *type_names(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *names = "";

    for (size_t i = 0; i < bulk->type_count; i++)
        names = bb_format(rq, "%s%s%s", names, i ? ", " : "", bulk->types[i].name);
    return names;
}

static int usage(struct bb_request *rq, const char *text)
{
    bb_fail_text(rq, 400, text);
    return IMPORT_USAGE;
}

/* Returns 0, or the exit status. */
static int check_home(struct bb_request *rq, int64_t organization)
{
    int known = bulk_organization_known(rq, organization);

    if (known < 0) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    return known ? 0 : usage(rq, "--organization: no organization has this id");
}

/*
 * Fills in the sender, the type and the organization. Returns 0, or the exit status. Types are
 * known only after `start`, which is not called for commands.
 */
static int describe(struct bb_request *rq, struct import *import)
{
    struct bulk *bulk = rq->state;
    const char *type = bb_text(rq, "type");

    if (!bulk->type_count)
        bulk_start(rq->host, bulk);
    import->who = (struct bb_principal){
        .size = sizeof(struct bb_principal), .email = "", .role = BB_ROLE_ADMIN};
    import->source = (struct bulk_source){
        .type = bulk_type_named(bulk, type),
        .who = &import->who,
        .organization = json_integer_value(json_object_get(bb_body(rq), "organization")),
        .warn = warn,
        .warn_arg = &import->terminal,
        .interruptible = true};
    if (!import->source.type)
        return usage(
            rq, bb_format(rq, "--type: unknown type %.64s; known types: %s", type, type_names(rq)));
    return check_home(rq, import->source.organization);
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Returns 0, or the exit status. */
static int read_file(struct bb_request *rq, struct import *import)
{
    struct input *input = &import->input;

    *input = (struct input){
        .host = rq->host, .from = bb_text(rq, "file"), .most = BULK_FILE_MAX, .fd = -1};
    bb_defer(rq, input_free, input);
    terminal_show(&import->terminal, "reading");
    if (bb_offload(rq, BULK_POOL, input_read, input)) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    if (*input->why) {
        bb_fail_text(rq, 400, input->why);
        return IMPORT_FAILED;
    }
    import->source.path = input->path;
    import->source.name = input->piped ? PIPED_NAME : last_name(input->from);
    if (bulk_is_csv(import->source.name))
        return 0;
    bb_fail(rq, 400, "%.200s: must be a .csv file", input->from);
    return IMPORT_FAILED;
}

static int created(struct bb_request *rq, struct bulk_job *job)
{
    job->created = bb_query(rq, &bulk_create, BB_ARGS(BULK_CREATE_ARGS(job))) != NULL;
    return job->created ? 0 : bb_failed(rq);
}

/* Returns 0, or the exit status. */
static int take(struct bb_request *rq, struct import *import)
{
    const struct bulk_job *job = &import->job;

    terminal_show(&import->terminal, "checking");
    if (bulk_take(rq, &import->source, &import->job, created))
        return IMPORT_FAILED;
    if (job->doubtful)
        terminal_line(&import->terminal, "%s: %lld rows, %lld of them fail the check", job->file,
                      (long long)job->rows, (long long)job->doubtful);
    else
        terminal_line(&import->terminal, "%s: %lld rows, all pass the check", job->file,
                      (long long)job->rows);
    return 0;
}

/* ---- whether to continue ---- */

static bool wanted(struct bb_request *rq, const char *option)
{
    return json_is_true(json_object_get(bb_body(rq), option));
}

/* Asks the operator if there is a terminal. */
static bool goes_on(struct bb_request *rq, struct import *import)
{
    struct input_answer answer = {.host = rq->host};

    if (bb_superseded(rq->host) || wanted(rq, "dry-run"))
        return false;
    if (!import->job.doubtful || wanted(rq, "yes") || !import->terminal.bars ||
        !isatty(STDIN_FILENO) || import->input.piped)
        return true;
    terminal_show(&import->terminal, "Store the others? [y/N] ");
    import->terminal.shown[0] = '\0'; /* the newline of the answer has ended that line */
    return !bb_offload(rq, BULK_POOL, input_ask, &answer) && answer.yes && !bb_superseded(rq->host);
}

/* Deletes the job, of which nothing was stored. Returns the exit status. */
static int give_up(struct bb_request *rq, struct import *import)
{
    bool interrupted = bb_superseded(rq->host);

    if (!interrupted && import->job.doubtful)
        import_print_failed(rq, import);
    if (bulk_job_delete(rq, &import->who, import->job.id))
        return IMPORT_FAILED;
    if (interrupted)
        terminal_line(&import->terminal, "interrupted: nothing was stored");
    if (interrupted)
        return IMPORT_INTERRUPTED;
    return import->job.doubtful ? IMPORT_FAILED : 0;
}

int bulk_command_import(struct bb_request *rq)
{
    struct import *import = bb_alloc(rq, sizeof(*import));

    import->cancelled = INT64_MAX;
    terminal_begin(&import->terminal);
    int status = describe(rq, import);

    if (!status)
        status = read_file(rq, import);
    if (!status)
        status = take(rq, import);
    if (!status)
        status = goes_on(rq, import) ? import_run(rq, import) : give_up(rq, import);
    terminal_show(&import->terminal, "");
    return status == IMPORT_FAILED && bb_superseded(rq->host) ? IMPORT_INTERRUPTED : status;
}
