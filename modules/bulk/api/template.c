/* GET /api/bulk-upload/template.csv: a header line with all columns of a type, and an example. */
#include <string.h>

#include "modules/bulk/job/bulk.h"
#include "modules/common/csv.h"

int bulk_template(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *name = bb_arg(rq, "type");
    const struct bulk_type *type = bulk_type_named(bulk, name ? name : "Devices");
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    if (!type)
        return bulk_refuse_type(rq);
    bb_defer(rq, csv_drop, csv);
    csv->separator = ',';
    for (size_t i = 0; i < type->columns; i++)
        csv_plain(csv, bulk_column(type, i)->name);
    csv_end_row(csv);
    for (size_t i = 0; i < type->columns; i++)
        csv_text(csv, bulk_column(type, i)->example);
    csv_end_row(csv);
    if (csv->failed)
        return bulk_reply(rq, 503, NULL);
    bb_reply_header(rq, "Content-Disposition",
                    bb_format(rq, "attachment; filename=\"template-%s.csv\"", type->name));
    return bb_reply_bytes(rq, 200, "text/csv; charset=utf-8", csv->bytes, csv->length);
}
