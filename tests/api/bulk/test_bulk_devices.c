/*
 * Devices in bulk: each row does the same as a single request. Realistic files: real exports of
 * plants and meters, which are stored or get one message that says what to change; and the effects
 * of spreadsheets on cells.
 */
#include "bulk.h"
#include "devices.h"
#include "meter.h"

static const char *upload_devices(const struct person *who, const char *csv)
{
    return bulk_id(bulk_text(who, "", csv));
}

static void expect_device(const char *key, const char *expected)
{
    ask(m, 200, expected, "GET /api/device/%s", encoded(key));
}

TEST(a_row_creates_the_same_device_as_a_request)
{
    struct answer *single =
        ask(m, 201, NULL,
            "POST /api/device {'externalId':'single','siteName':'Hill; north',"
            "'countryCode':'deu','commissioningDate':'2024-02-29','capacity':9.9,"
            "'latitude':'+52.5200','longitude':'-13.4','fuelCode':'ES100','serialNumber':'007',"
            "'timezone':'Europe/Berlin'}");
    const char *id = upload_devices(
        m, "externalId;projectName;CountryCode;commissioningDate;capacity;latitude;longitude;"
           "fuelCode;serialNumber;timezone;yieldValue\r\n"
           " row ;\"Hill; north\";deu;2024-02-29;9,9;+52,5200;-13,4;ES100;007;Europe/Berlin;\r\n");

    bulk_rows(bulk_store(m, id), "1  row  success\n");
    struct answer *row = ck_status(device_get(m, "row"), 200);

    EACH_TEXT (field, "siteName", "countryCode", "commissioningDate", "capacity", "latitude",
               "longitude", "fuelCode", "serialNumber", "timezone", "yieldValue", "attributes",
               "documents", "organizationId")
        ck_assert_str_eq(device_field(row, field), device_field(single, field));
}

/* PostgreSQL gets the cells as arrays, in which these characters have a meaning. */
TEST(cells_with_quotes_backslashes_and_braces_are_stored_unchanged)
{
    const char *rows = "externalId,siteName,address,timezone\nar1,\"a\"\"b\\c,{}\",NULL,\n"
                       "\"\\x\"\"{\",{},\"\\\",Europe/Berlin\nar1,again,,\n";

    bulk_rows(bulk_store(m, upload_devices(m, rows)),
              "1 ar1 success\n2 \\x\"{ success\n3 ar1 failed externalId: A device with this "
              "externalId already exists\n");
    expect_device("ar1", "{'siteName':'a\\u0022b\\\\c,{}','address':'NULL','timezone':null}");
    expect_device("\\x\"{", "{'siteName':'{}','address':'\\\\','timezone':'Europe/Berlin'}");
    bulk_rows(bulk_log_of(m, upload_devices(m, "externalId,capacity\nbad,-1\nworse,x\n"), ""),
              "1 bad failed capacity: must be at least 0\n2 worse failed capacity: must be a "
              "number\n");
}

/* If commas separate cells they are not decimal signs; in texts they are kept. */
TEST(commas_are_decimal_signs_only_in_numbers)
{
    bulk_rows(bulk_log_of(
                  m, upload_devices(m, "externalId,capacity,latitude\nq1,\"9,9\",\"48,2\"\n"), ""),
              "1 q1 failed capacity: must be a number; latitude: must be "
              "decimal degrees, as in \"52.52\"\n");
    bulk_store(m, upload_devices(m, "externalId;siteName;latitude\n7,5;8,5;48,2\n"));
    expect_device("7,5", "{'siteName':'8,5'}");
}

/* Every kind of bad row, with the messages of a single request. */
TEST(invalid_device_rows_have_the_errors_of_single_requests)
{
    ck_status(device_post(m, device_named("There")), 201);
    ck_status(device_post(k, device_named("Elsewhere")), 201);
    const char *id = upload_devices(
        m, text("externalId,siteName,countryCode,commissioningDate,capacity,latitude,timezone,"
                "organizationId\n"
                "d1,,XX,2024-02-30,-1,91,Mars/Base,\n"
                ",,,,,,,\n"
                ",,DE,,,,,\n"
                "tHERE,,,,,,,\n"
                "Elsewhere,,,,,,,\n"
                "d2,,,,abc,,,\n"
                "d3,,,,,,,%jd\n"
                "d4,,,,,,,%jd\n"
                "D3,,,,,,,\n",
                m->organization, k->organization));
    struct answer *single = ask(m, 400, NULL,
                                "POST /api/device {'externalId':'d1','countryCode':'XX',"
                                "'commissioningDate':'2024-02-30','capacity':-1,'latitude':'91',"
                                "'timezone':'Mars/Base'}");
    struct answer *log = bulk_log_of(m, id, "");
    const char *there = "failed externalId: A device with this externalId already exists";
    const char *rows = "1 d1 failed *\n3 - failed externalId: is required, unless siteName or "
                       "serialNumber is sent\n4 tHERE %s\n5 Elsewhere %s\n6 d2 failed capacity: "
                       "must be a number\n7 d3 %s\n8 d4 %s\n9 D3 %s\n";

    ck_assert(json_equal(json_object_get(item_of(log, "rows", 0), "errors"),
                         json_object_get(single->json, "errors")));
    bulk_rows(log, text(rows, there, "pending", "pending", "pending",
                        "failed externalId: is the same as in row 7"));
    log = bulk_store(m, id);
    bulk_rows(log, text(rows, there, "success", "success", "success", there));
    bulk_ended(log, 3, 5);
    ck_status(device_get(m, "d3"), 200);
    ck_status(device_get(m, "Elsewhere"), 200);
    ck_status(device_get(m, "d4"), 200);
    ck_error(device_get(k, "d4"), 404, "");
}

/* The rules are those for requests: an account with one organization acts there whatever a row
 * names, and gets a warning; other accounts may only name the upload's organization. */
TEST(a_row_may_name_another_organization_like_a_request)
{
    struct person *both = person_with_role(host, admin, "bulk_devices.both", "ApiUser");
    const char *csv = text("externalId,organizationId\nf1,%jd\n", k->organization);

    ask(m, 201, NULL, "POST /api/device {'externalId':'f0','organizationId':%jd}", k->organization);
    bulk_rows(bulk_store(m, upload_devices(m, csv)), "1 f1 success\n");
    ck_status(device_get(m, "f1"), 200);
    ask(both, 201, NULL, "POST /api/organization {'name':'Second'}");
    const char *id = bulk_id(bulk_text(both, text("organizationId=%jd", both->organization), csv));

    bulk_rows(bulk_log_of(both, id, ""),
              text("1 f1 failed organizationId: must be %jd, as for the bulk upload, or empty\n",
                   both->organization));
}

TEST(the_device_template_can_be_uploaded)
{
    struct answer *template = ask(m, 200, NULL, "GET " BULK "/template.csv");

    bulk_rows(bulk_store(m, upload_devices(m, template->body)), "1 PLANT-7 success\n");
    bulk_shown(template);
    bulk_shown(ask(m, 200, NULL, "GET " BULK "/template.csv?type=Reads"));
}

/* ---- real files ---- */

#define DEVICE_COLUMNS                                                                             \
    "The columns are externalId, siteName, countryCode, commissioningDate, capacity, address, "    \
    "latitude, longitude, fuelCode, deviceTypeCode, serialNumber, timezone, yieldValue, "          \
    "organizationId; template.csv is an example"
#define READ_COLUMNS                                                                               \
    "The columns are externalId, startDate, endDate, value, unit, type, timezone; template.csv is" \
    " an example"

/* Real export formats of SMA, Fluvius and WRI, unchanged. */
TEST(an_unchanged_real_export_gets_one_error_that_says_what_to_change)
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
        {"Devices",
         "country,country_long,name,gppd_idnr,capacity_mw,primary_fuel,commissioning_year\n"
         "DEU,Germany,Aach,WRI1005,1.2,Solar,2011\n",
         "Line 1 must be the header line, and has no known column (it has: country, country_long, "
         "name, gppd_idnr, capacity_mw). Rename its columns, or put a header line before "
         "it. " DEVICE_COLUMNS},
    };

    int64_t before = sql_number(db, "SELECT count(*) FROM bulk_job");

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        ck_error(bulk_text(m, text("type=%s", files[i].type), files[i].csv), 400, files[i].message);
    sql_is(db, before, "SELECT count(*) FROM bulk_job");
}

/* The same files with the column names that the message asks for. */
TEST(real_exports_with_renamed_columns_are_stored)
{
    bulk_store_all("Devices",
                   "externalId,siteName,countryCode,commissioningDate,capacity\n"
                   "=\"541448820000000001\",Fluvius,Belgium,2018-01-01,50\n"
                   "wri1,Aach,DEU,2011-01-01,1200\n"
                   "wri2,Sun,United States of America,2011-01-01,12\n"
                   "opsd1,Rügen,germany,2011-01-01,12\n"
                   "wri3,Seoul,\"Korea, Republic of\",2011-01-01,12\n",
                   5);
    expect_device("541448820000000001", "{'countryCode':'BE'}");
    expect_device("wri2", "{'countryCode':'US'}");
    expect_device("opsd1", "{'countryCode':'DE'}");
    expect_device("wri3", "{'countryCode':'KR'}");
    bulk_store_all("Reads",
                   "sep=;\r\nexternalId;startDate;endDate;value;unit;type\r\n"
                   "=\"541448820000000001\";2026-01-01T00:00:00Z;"
                   "2026-01-01T00:15:00Z;0,012;kWh;History\r\n",
                   1);
    bulk_store_all("Reads",
                   "\r\nexternalId|timestamp|endDate|startDate|value|unit|type\r\n"
                   "wri1||2026-01-01T00:15:00+01:00|2026-01-01T00:00:00+01:00|1|"
                   "kWh|Delta\r\n \r\n\u00a0|||\r\n",
                   1);
}

TEST(an_unknown_country_gets_an_error_with_the_accepted_forms)
{
    const char *problem = "countryCode: must be a country: its ISO 3166-1 code of two or three "
                          "letters, such as DE or DEU, or its English name, such as Germany";

    bulk_rows(bulk_log_of(m, upload_devices(m, "externalId,countryCode\nc1,Atlantis\nc2,XX\n"), ""),
              text("1 c1 failed %s\n2 c2 failed %s\n", problem, problem));
}

/* ---- warnings ---- */

TEST(warnings_of_rows_are_in_the_upload_log_and_counted)
{
    struct answer *made = bulk_text(m, "",
                                    "externalId,capacity,fuelCode,deviceTypeCode,countryCode\n"
                                    "w1,250000,PV,T1,DE\nw2,5,ES100,TC110,DE\n"
                                    "w3,6000,,,Nowhere\n1.23E+12,5,ES100,TC110,DE\n");
    const char *id = bulk_id(made);
    const char *much = "{'field':'capacity',"
                       "'problem':'is in kW, and this value is large; were watts sent?',"
                       "'code':'large_capacity'}";
    const char *w1 = text("{'warnings':[%s,{'field':'fuelCode',"
                          "'problem':'is not ES and three digits'},{'field':'deviceTypeCode',"
                          "'problem':'is not TC and three digits, nor T0 and four or five'}]}",
                          much);

    expect_json(made->json, "{'check':{'warned':3,'passed':3}}");
    expect_json(bulk_log_of(m, id, "")->json,
                text("{'rows':[%s,{},{},{'warnings':[{'field':'externalId','problem':'looks like a "
                     "long number that a spreadsheet has shortened; format the column as text "
                     "before you save the file'}]}]}",
                     w1));
    ck_assert_uint_eq(
        json_array_size(json_object_get(item_of(bulk_log_of(m, id, ""), "rows", 1), "warnings")),
        0);
    expect_json(bulk_log_of(m, id, "status=failed")->json,
                text("{'rows':[{'warnings':[%s]}]}", much));
    struct answer *log = bulk_store(m, id);

    bulk_ended(log, 3, 1);
    expect_json(item_of(log, "rows", 0), w1);
    ask(m, 200, NULL, "DELETE " BULK "/%s", id);
    sql_is(db, 0, "SELECT count(*) FROM bulk_warning WHERE job = '%s'", id);
}

TEST(a_value_in_a_column_without_a_name_gives_a_warning)
{
    answer_warns(ck_status(bulk_text(m, "", "externalId,capacity,\nn0,5,\nn1,5,60\n"), 201),
                 "column 3 has no name; its values, the first in row 2, are ignored");
    answer_warns(ck_status(bulk_text(m, "", "externalId,capacity,\nn2,5,\n"), 201), NULL);
}

/* ---- exports that are uploaded again ---- */

TEST(failed_csv_returns_rows_unchanged_whatever_character_they_begin_with)
{
    const char *id = upload_devices(m, "externalId,siteName,latitude,address,capacity\n"
                                       "=f1,+Site,-33.9,\"Road 5, - 2; =x\",x\n"
                                       "'=f2,@Site,-33.9,'t Hof,x\n");
    const char *row = "\r\n\"'=f1\",\"'+Site\",-33.9,\"Road 5, '- 2; '=x\",x,";
    char *fixed = text("%s", ask(m, 200, row, "GET " BULK "/%s/failed.csv", id)->body);

    for (char *at = fixed; (at = strstr(at, ",x,")); at++)
        at[1] = '5';
    bulk_store_all("Devices", fixed, 2);
    expect_device("=f1", "{'siteName':'+Site','latitude':'-33.9','address':'Road 5, - 2; =x'}");
    expect_device("=f2", "{\"address\":\"'t Hof\"}");
}

static void expect_wh(const char *key, int64_t wh)
{
    const char *const values[] = {key};

    ck_assert_str_eq(sql_text(db,
                              "SELECT sum(r.wh)::text FROM device d, reading_histories(d.id,"
                              " '2026-01-01', '2026-01-03') r WHERE d.external_id = $1",
                              1, values),
                     text("%jd", wh));
}

/* If a device with the apostrophe exists, the row means that device. */
TEST(a_leading_apostrophe_is_removed_unless_an_id_has_it)
{
    meter_make(host, m, "'=g1", 100, INT64_C(1514764800000)); /* 2018-01-01 */
    bulk_rows(bulk_log_of(m, upload_devices(m, "externalId\n'=g1\n"), ""),
              "1 =g1 failed externalId: A device with this externalId already exists\n");
    bulk_store_all("Devices",
                   "externalId,capacity,commissioningDate\n"
                   "=g1,100,2018-01-01\n'@g2,100,2018-01-01\n",
                   2);
    bulk_store_all("Reads",
                   "externalId,startDate,endDate,value,unit,type\n"
                   "'=g1,2026-01-01,2026-01-02,1,kWh,History\n"
                   "=g1,2026-01-01,2026-01-02,2,kWh,History\n"
                   "'@g2,2026-01-01,2026-01-02,3,kWh,History\n",
                   3);
    expect_wh("'=g1", 1000);
    expect_wh("=g1", 2000);
}

TEST(an_export_of_readings_can_be_uploaded_again)
{
    EACH_TEXT (name, "=e1", "+e2", "-e3", "@e4", "\uff1de5", "e;-6", "\"=e7") {
        const char *path = text("/api/meter-reads/new/%s", encoded(name));
        int64_t id = meter_make(host, m, name, 100, INT64_C(1514764800000));

        ask(m, 201, NULL,
            "POST %s {'type':'History','unit':'kWh','reads':[{'startDate':'2026-01-01',"
            "'endDate':'2026-01-02','value':3}]}",
            path);
        const char *csv = ask(m, 200, NULL, "GET %s/export.csv", path)->body;

        sql_run(db, text("SELECT reading_forget(%jd)", id));
        bulk_store_all("Reads", csv, 1);
        ask(m, 200, ",3000,Wh,History,", "GET %s/export.csv", path);
    }
}

OPENED_SUITE(bulk_devices, bulk_open_devices, 180)
