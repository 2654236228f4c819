/*
 * POST /api/bulk-upload: determines the sender, the type and the organization; take.c turns the
 * file into a job.
 */
#include "modules/bulk/job/bulk.h"

/*
 * Finds the requested type and checks that the caller's role may upload it. Returns 0, or the
 * status of the response sent.
 */
static int type_of(struct bb_request *rq, const struct bulk_type **type)
{
    const struct bulk *bulk = rq->state;
    const char *name = bb_arg(rq, "type");

    *type = bulk_type_named(bulk, name ? name : "Devices");
    if (!*type)
        return bulk_refuse_type(rq);
    if (!((*type)->rows->roles & rq->principal->role))
        return bb_fail_text(rq, 403, NULL);
    return 0;
}

/*
 * Finds the organization that all rows of the file belong to. One that an Admin names must exist;
 * other callers can only name existing ones.
 */
static int home(struct bb_request *rq, int64_t *organization)
{
    int refused = bb_home(rq, bb_arg_int(rq, "organizationId", 0), organization);

    if (refused || rq->principal->role != BB_ROLE_ADMIN)
        return refused;
    int known = bulk_organization_known(rq, *organization);

    if (known < 0)
        return bb_failed(rq);
    return known ? 0 : bb_fail(rq, 404, "Organization not found");
}

static int file_of(struct bb_request *rq, const struct bb_file **file)
{
    *file = bb_file(rq, 0);
    if (!*file)
        return bb_invalid(rq, "file",
                          "is required: a part of multipart/form-data with the name of a file");
    if (bulk_is_csv((*file)->name))
        return 0;
    return bb_invalid(rq, (*file)->part, "must be a .csv file, its name up to 255 characters long");
}

static void created(struct bb_request *rq, struct bb_tx *tx, void *job)
{
    (void)rq, (void)tx;
    ((struct bulk_job *)job)->created = true;
}

/* $1 organization, $2 its quota in bytes, $3 the error message */
static const struct bb_sql fit = {
    "SELECT busbar_require((SELECT bytes FROM bulk_usage WHERE organisation = $1::bigint)"
    " <= $2::bigint, 409, $3)",
    0,
};

/* Bulk uploads of an organization lock the row that counts its bytes, so they share a key. */
static int finish(struct bb_request *rq, struct bulk_job *job)
{
    const struct bulk *bulk = rq->state;
    struct bb_tx *unit = bb_unit(rq, (uint64_t)job->organization);

    if (!unit || bb_add(rq, unit, &bulk_create, BB_ARGS(BULK_CREATE_ARGS(job))) < 0 ||
        bb_add(rq, unit, &fit,
               BB_ARGS(bb_i(job->organization), bb_i(bulk->settings->bytes_per_organization),
                       bb_t(bulk_over_quota(rq)))) < 0)
        return bb_failed(rq);
    bb_after(rq, unit, created, job);
    json_t *json = bulk_job_json(job);

    if (!json)
        return bb_fail(rq, 503, "Out of memory");
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : bb_failed(rq);
}

static void warn(struct bb_request *rq, void *arg, const char *text)
{
    (void)arg;
    bb_warn_text(rq, text);
}

int bulk_upload(struct bb_request *rq)
{
    struct bulk_source source = {.who = rq->principal, .warn = warn};
    const struct bb_file *file;
    struct bulk_job *job = bb_alloc(rq, sizeof(*job));
    int refused = type_of(rq, &source.type);

    if (!refused)
        refused = home(rq, &source.organization);
    if (!refused)
        refused = file_of(rq, &file);
    if (refused)
        return refused;
    source.path = file->path;
    source.name = file->name;
    return bulk_take(rq, &source, job, finish);
}
