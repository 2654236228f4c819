/*
 * Realistic files: real exports of plants and meters, which are stored or get one message that says
 * what to change; and the effects of spreadsheets on cells.
 */
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "meter.h"
#include "suite.h"
#include "suites.h"

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_csv", false);

    stage_open(&spec);
    bulk_settle("bulk_csv");
    m = person_make(host, admin, "bulk_csv.m", NULL);
}

static struct answer *send_text(const char *type, const char *csv)
{
    return bulk_send(host, m, text("type=%s", type), "x.csv", csv, strlen(csv));
}

/* Uploads, confirms and stores the text. */
static struct answer *store_text(const char *type, const char *csv)
{
    return bulk_store(m, bulk_id(send_text(type, csv)));
}

static const char *device_text(const char *key, const char *field)
{
    return answer_text(ask(m, 200, NULL, "GET /api/device/%s", encoded(key)), field);
}

static void all_succeed(struct answer *log, int64_t rows)
{
    ck_assert_msg(bulk_number(log, "progress", "succeeded") == rows, "%s", log->body);
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 0);
}

#define DEVICE_COLUMNS                                                                             \
    "The columns are externalId, siteName, countryCode, commissioningDate, capacity, address, "    \
    "latitude, longitude, fuelCode, deviceTypeCode, serialNumber, timezone, yieldValue, "          \
    "organizationId; template.csv is an example"
#define READ_COLUMNS                                                                               \
    "The columns are externalId, startDate, endDate, value, unit, type, timezone; template.csv is" \
    " an example"

/* Real export formats of SMA, Fluvius, Enphase, DSMR-reader, WRI and OPSD, unchanged. */
TEST(a_real_export_gets_one_message_that_says_what_to_change)
{
    static const struct {
        const char *type, *csv, *message;
    } files[] = {
        {"Reads",
         "\xef\xbb\xbfsep=,\r\n\"Version CSV|Tool SUNNY PORTAL\"\r\n\r\n"
         "\"Time period\",\"Total yield [kWh]\"\r\n01/01/2026,12.3\r\n",
         "Line 2 must be the header line, and has no known column (it has: Version CSV|Tool SUNNY "
         "PORTAL). Rename its columns, or put a header line before it. " READ_COLUMNS},
        {"Reads",
         "Van (datum);Van (tijdstip);Tot (datum);Tot (tijdstip);EAN-code;Meter;Metertype;Register;"
         "Volume;Eenheid;Validatiestatus\n01-01-2026;00:00:00;01-01-2026;00:15:00;"
         "=\"541448820000000001\";1SAG1;Digitale meter;Afname Dag;0,012;kWh;Gevalideerd\n",
         "Line 1 must be the header line, and has no known column (it has: Van (datum), Van "
         "(tijdstip), Tot (datum), Tot (tijdstip), EAN-code). Rename its columns, or put a header "
         "line before it. " READ_COLUMNS},
        {"Reads", "Date/Time,Energy Produced (Wh)\n2026-01-13 00:00:00 +0000,0\n",
         "Line 1 must be the header line, and has no known column (it has: Date/Time, Energy "
         "Produced (Wh)). Rename its columns, or put a header line before it. " READ_COLUMNS},
        {"Reads",
         "timestamp;delivered_1;returned_1;delivered_2;returned_2\n"
         "2026-01-01T00:00:00+01:00;1;0;2;0\n",
         "Line 1 must be the header line, and has no known column (it has: timestamp, delivered_1, "
         "returned_1, delivered_2, returned_2). Rename its columns, or put a header line before it."
         " " READ_COLUMNS},
        {"Devices",
         "country,country_long,name,gppd_idnr,capacity_mw,primary_fuel,commissioning_year\n"
         "DEU,Germany,Aach,WRI1005,1.2,Solar,2011\n",
         "Line 1 must be the header line, and has no known column (it has: country, country_long, "
         "name, gppd_idnr, capacity_mw). Rename its columns, or put a header line before "
         "it. " DEVICE_COLUMNS},
        {"Devices", "My export of plants\r\n\r\nexternalId;siteName;capacity\r\nA;B;5\r\n",
         "Line 1 must be the header line, and has no known column (it has: My export of plants). "
         "Line 3 looks like the header: delete the lines before it. " DEVICE_COLUMNS},
    };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        ck_error(send_text(files[i].type, files[i].csv), 400, files[i].message);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM bulk_job"), 0);
}

/* The same files with the column names that the message asks for. */
TEST(real_exports_with_renamed_columns_go_in)
{
    all_succeed(store_text("Devices", "externalId,siteName,countryCode,commissioningDate,capacity\n"
                                      "=\"541448820000000001\",Fluvius,Belgium,2018-01-01,50\n"
                                      "wri1,Aach,DEU,2011-01-01,1200\n"
                                      "wri2,Sun,United States of America,2011-01-01,12\n"
                                      "opsd1,Rügen,germany,2011-01-01,12\n"
                                      "wri3,Seoul,\"Korea, Republic of\",2011-01-01,12\n"),
                5);
    ck_assert_str_eq(device_text("541448820000000001", "countryCode"), "BE");
    ck_assert_str_eq(device_text("wri2", "countryCode"), "US");
    ck_assert_str_eq(device_text("opsd1", "countryCode"), "DE");
    ck_assert_str_eq(device_text("wri3", "countryCode"), "KR");
    all_succeed(store_text("Reads", "sep=;\r\nexternalId;startDate;endDate;value;unit;type\r\n"
                                    "=\"541448820000000001\";2026-01-01T00:00:00Z;"
                                    "2026-01-01T00:15:00Z;0,012;kWh;History\r\n"),
                1);
    all_succeed(store_text("Reads", "\r\nexternalId|timestamp|endDate|startDate|value|unit|type\r\n"
                                    "wri1||2026-01-01T00:15:00+01:00|2026-01-01T00:00:00+01:00|1|"
                                    "kWh|Delta\r\n \r\n\u00a0|||\r\n"),
                1);
}

TEST(a_country_that_is_none_is_told_what_it_may_be)
{
    struct answer *log = bulk_log_of(
        m, bulk_id(send_text("Devices", "externalId,countryCode\nc1,Atlantis\nc2,XX\n")), "");
    const char *problem = "countryCode: must be a country: its ISO 3166-1 code of two or three "
                          "letters, as DE or DEU, or its English name, as Germany";

    ck_assert_str_eq(bulk_row(log, 0), text("1 c1 failed %s", problem));
    ck_assert_str_eq(bulk_row(log, 1), text("2 c2 failed %s", problem));
}

/* ---- warnings ---- */

static const char *warning_of(const struct answer *log, size_t row, size_t index)
{
    const json_t *warning = json_array_get(
        json_object_get(json_array_get(json_object_get(log->json, "rows"), row), "warnings"),
        index);

    return warning ? text("%s: %s", json_string_value(json_object_get(warning, "field")),
                          json_string_value(json_object_get(warning, "problem")))
                   : "";
}

TEST(what_a_request_warns_about_is_in_the_log_and_counted)
{
    struct answer *made =
        send_text("Devices", "externalId,capacity,fuelCode,deviceTypeCode,countryCode\n"
                             "w1,250000,PV,T1,DE\nw2,5,ES100,TC110,DE\nw3,6000,,,Nowhere\n"
                             "1.23E+12,5,ES100,TC110,DE\n");
    const char *id = bulk_id(made);
    static const char *const queries[] = {"", "limit=2", "status=failed"};

    ck_assert_int_eq(bulk_number(made, "check", "warned"), 3);
    ck_assert_int_eq(bulk_number(made, "check", "passed"), 3);
    struct answer *log = bulk_log_of(m, id, queries[0]);

    ck_assert_str_eq(warning_of(log, 0, 0),
                     "capacity: is in kW, and this is much; were watts sent?");
    ck_assert_str_eq(warning_of(log, 0, 1), "fuelCode: is not ES and three digits");
    ck_assert_str_eq(warning_of(log, 0, 2),
                     "deviceTypeCode: is not TC and three digits, nor T0 and four or five");
    ck_assert_str_eq(warning_of(log, 1, 0), "");
    ck_assert_str_eq(
        warning_of(log, 3, 0),
        "externalId: looks like a long number that a spreadsheet has shortened; format "
        "the column as text before you save the file");
    log = bulk_log_of(m, id, queries[2]);
    ck_assert_str_eq(warning_of(log, 0, 0),
                     "capacity: is in kW, and this is much; were watts sent?");
    log = bulk_store(m, id);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 3);
    ck_assert_str_eq(warning_of(log, 0, 1), "fuelCode: is not ES and three digits");
    ask(m, 200, NULL, "DELETE " BULK "/%s", id);
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM bulk_warning WHERE job = '%s'", id)),
                     0);
}

TEST(a_value_in_a_column_without_a_name_is_warned_about)
{
    struct answer *made =
        ck_status(send_text("Devices", "externalId,capacity,\nn0,5,\nn1,5,60\n"), 201);

    answer_warns(made, "column 3 has no name; its values, the first in row 2, are ignored");
    answer_warns(ck_status(send_text("Devices", "externalId,capacity,\nn2,5,\n"), 201), NULL);
}

TEST(headers_are_found_whatever_nobody_sees_in_them)
{
    struct answer *made =
        ck_status(send_text("Devices", "\xef\xbb\xbf\ufeffexternalId\u00a0;\u200bCapacity ;"
                                       "\u2003projectName\u3000\nh1;1,5;Hall\n"),
                  201);

    answer_warns(made, NULL);
    all_succeed(bulk_store(m, bulk_id(made)), 1);
    ck_assert_str_eq(device_text("h1", "siteName"), "Hall");
}

/* ---- exports that are uploaded again ---- */

static const char *csv_of(const char *path)
{
    return ask(m, 200, NULL, "GET %s", path)->body;
}

TEST(failed_rows_come_back_as_they_were_whatever_they_begin_with)
{
    const char *id = bulk_id(send_text("Devices", "externalId,siteName,latitude,address,capacity\n"
                                                  "=f1,+Site,-33.9,\"Road 5, - 2; =x\",x\n"
                                                  "'=f2,@Site,-33.9,'t Hof,x\n"));
    const char *failed = csv_of(text(BULK "/%s/failed.csv", id));
    char *fixed = text("%s", failed);

    ck_assert_ptr_nonnull(strstr(failed, "\r\n\"'=f1\",\"'+Site\",-33.9,\"Road 5, '- 2; '=x\",x,"));
    for (char *at = fixed; (at = strstr(at, ",x,")); at++)
        at[1] = '5';
    all_succeed(store_text("Devices", fixed), 2);
    ck_assert_str_eq(device_text("=f1", "siteName"), "+Site");
    ck_assert_str_eq(device_text("=f1", "latitude"), "-33.9");
    ck_assert_str_eq(device_text("=f1", "address"), "Road 5, - 2; =x");
    ck_assert_str_eq(device_text("=f2", "address"), "'t Hof");
}

/* If a device with the apostrophe exists, the row means that device. */
TEST(an_apostrophe_is_that_of_an_export_unless_it_is_the_ids)
{
    json_t *device = json_pack("{ss, sf, ss}", "externalId", "'=g1", "capacity", 100.0,
                               "commissioningDate", "2018-01-01");

    ck_status(http(host, "POST", "/api/device", m->token, device), 201);
    ck_assert_str_eq(
        bulk_row(bulk_log_of(m, bulk_id(send_text("Devices", "externalId\n'=g1\n")), ""), 0),
        "1 =g1 failed externalId: A device with this externalId already exists");
    all_succeed(store_text("Devices", "externalId,capacity,commissioningDate\n"
                                      "=g1,100,2018-01-01\n'@g2,100,2018-01-01\n"),
                2);
    all_succeed(store_text("Reads", "externalId,startDate,endDate,value,unit,type\n"
                                    "'=g1,2026-01-01,2026-01-02,1,kWh,History\n"
                                    "=g1,2026-01-01,2026-01-02,2,kWh,History\n"
                                    "'@g2,2026-01-01,2026-01-02,3,kWh,History\n"),
                3);
    ck_assert_int_eq(sql_number(db, "SELECT sum(r.wh) FROM device d, reading_histories(d.id,"
                                    " '2026-01-01', '2026-01-03') r WHERE d.external_id = '''=g1'"),
                     1000);
    ck_assert_int_eq(sql_number(db, "SELECT sum(r.wh) FROM device d, reading_histories(d.id,"
                                    " '2026-01-01', '2026-01-03') r WHERE d.external_id = '=g1'"),
                     2000);
}

TEST(an_export_of_readings_goes_in_again)
{
    static const char *const names[] = {"=e1", "+e2", "-e3", "@e4", "\uff1de5", "e;-6", "\"=e7"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = text("/api/meter-reads/new/%s", encoded(names[i]));
        json_t *device = json_pack("{ss, sf, ss}", "externalId", names[i], "capacity", 100.0,
                                   "commissioningDate", "2018-01-01");
        json_t *read =
            json_pack("{ss, ss, s[{ss, ss, si}]}", "type", "History", "unit", "kWh", "reads",
                      "startDate", "2026-01-01", "endDate", "2026-01-02", "value", 3);
        struct answer *made = ck_status(http(host, "POST", "/api/device", m->token, device), 201);

        ck_status(http(host, "POST", path, m->token, read), 201);
        const char *csv = csv_of(text("%s/export.csv", path));

        sql_run(db, text("SELECT reading_forget(%lld)", (long long)answer_int(made, "id")));
        all_succeed(store_text("Reads", csv), 1);
        ck_assert_ptr_nonnull(strstr(csv_of(text("%s/export.csv", path)), ",3000,Wh,History,"));
    }
}

STAGE_SUITE(bulk_csv, set_up, 180)
