/* Rows of the export. */
#include "modules/certificate/base/certificate.h"
#include "modules/common/csv.h"

static const char *const columns[] = {"id",
                                      "certificate_issuance_start",
                                      "certificate_issuance_end",
                                      "readvalue_watthour",
                                      "status",
                                      "externalId",
                                      "developerId",
                                      "serialNumber",
                                      "deviceId",
                                      "groupId",
                                      "certificateTransactionUID",
                                      "timezone",
                                      "ongoing_start_date",
                                      "ongoing_end_date",
                                      "siteName",
                                      "organizationId",
                                      "certificate_start",
                                      "certificate_end",
                                      "issued_watthour"};

void csv_head(struct csv *csv)
{
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        csv_plain(csv, columns[i]);
    csv_end_row(csv);
}

/* Writes the values in the order of `columns`. */
void csv_entry(struct bb_request *rq, struct csv *csv, const struct bb_rows *rows, size_t row,
               const struct bb_device *device, const char *site)
{
    const char *group = bb_cell(rq, rows, row, CERTIFICATE_GROUP);
    const char *start = bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_START));
    const char *end = bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_END));

    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_ID));
    csv_plain(csv, start);
    csv_plain(csv, end);
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_WH));
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_STATUS));
    csv_plain(csv, device->uuid);
    csv_text(csv, device->external_id);
    csv_text(csv, device->serial_number);
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_DEVICE));
    csv_plain(csv, group);
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_UID));
    csv_text(csv, device->timezone);
    csv_plain(csv, group ? start : NULL);
    csv_plain(csv, group ? end : NULL);
    csv_text(csv, site);
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_ORGANIZATION));
    csv_plain(csv, bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_FROM)));
    csv_plain(csv, bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_UNTIL)));
    csv_plain(csv, bb_cell(rq, rows, row, CERTIFICATE_ISSUED));
    csv_end_row(csv);
}
