/* GET /api/bulk-upload/template.csv: the header line with all columns of a type, and a row. */
#include <string.h>

#include "modules/bulk/csv/write.h"
#include "modules/bulk/job/bulk.h"

static void drop(void *written)
{
    write_free(written);
}

int bulk_template(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *name = bb_arg(rq, "type");
    const struct bulk_type *type = bulk_type_named(bulk, name ? name : "Devices");
    struct written *csv = bb_alloc(rq, sizeof(*csv));

    if (!type)
        return bb_invalid(rq, "type", "is none that rows can be of here");
    bb_defer(rq, drop, csv);
    csv->separator = ',';
    for (size_t i = 0; i < type->columns; i++)
        write_cell(csv, bulk_column(type, i)->name);
    write_end(csv);
    for (size_t i = 0; i < type->columns; i++)
        write_cell(csv, bulk_column(type, i)->example);
    write_end(csv);
    if (csv->failed)
        return bulk_reply(rq, 503, NULL);
    bb_reply_header(rq, "Content-Disposition",
                    bb_format(rq, "attachment; filename=\"template-%s.csv\"", type->name));
    return bb_reply_bytes(rq, 200, "text/csv; charset=utf-8", csv->bytes, csv->length);
}
