/* GET /api/bulk-upload: the caller's own jobs, the latest first; an Admin's list has all jobs. */
#include "modules/bulk/job/bulk.h"

enum { PAGE = 100 };

/*
 * $1 all, $2 account, $3 organizations, $4 status, $5 type, $6 id of the previous page's last job,
 * $7 number of jobs
 */
#define FIND                                                                                       \
    "SELECT " BULK_JOB " FROM bulk_job j WHERE j.status NOT IN ('arriving', 'removed')"            \
    " AND ($1::boolean OR"                                                                         \
    " (j.account = $2::bigint AND j.organisation = ANY($3::bigint[])))"                            \
    " AND ($4::text IS NULL OR j.status = $4) AND ($5::text IS NULL OR j.type = $5)"               \
    " AND ($6::uuid IS NULL OR (j.created_at, j.id) <"                                             \
    " (SELECT a.created_at, a.id FROM bulk_job a WHERE a.id = $6::uuid))"                          \
    " ORDER BY j.created_at DESC, j.id DESC LIMIT $7::bigint"
static const struct bb_sql find = {FIND, 0}, find_many = {FIND, BB_SQL_LONG};

int bulk_list(struct bb_request *rq)
{
    const struct bb_principal *who = rq->principal;
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const struct bb_rows *rows = bb_query(
        rq, limit > PAGE ? &find_many : &find,
        BB_ARGS(bb_b(who->role == BB_ROLE_ADMIN), bb_i(who->account),
                bb_ints(who->organizations, who->organization_count), bb_t(bb_arg(rq, "status")),
                bb_t(bb_arg(rq, "type")), bb_t(bb_arg(rq, "after")), bb_i(limit + 1)));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows), most = (size_t)limit;
    json_t *list = json_array();
    bool lost = !list;

    for (size_t i = 0; i < count && i < most && !lost; i++) {
        struct bulk_job job = bulk_job_of(rq, rows, i);

        lost = json_array_append_new(list, bulk_job_json(&job)) != 0;
    }
    if (!lost && count > most)
        bb_reply_next(rq, bb_cell(rq, rows, most - 1, 0));
    if (!lost)
        return bb_reply(rq, 200, list);
    json_decref(list);
    return bulk_reply(rq, 503, NULL);
}
