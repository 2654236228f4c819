/* The CSV reader: test cases from outside of the project, also with other separators and in pieces;
 * limits; where rows begin and end. */
#include <dirent.h>
#include <jansson.h>
#include <strings.h>
#include <sys/mman.h>

#include "fixture.h"
#include "modules/bulk/reader.h"
#include "modules/bulk/scan.h"
#include "modules/common/csv.h"
#include "suite.h"
#include "support/process.h"

struct seen {
    json_t *rows; /* arrays of cells */
    int64_t last;
    size_t begin, end; /* range of the last row */
};

static int see(void *arg, const struct reader_row *row)
{
    struct seen *seen = arg;
    json_t *cells = json_array();

    for (size_t i = 0; i < row->count; i++)
        json_array_append_new(cells, json_string(row->cells[i]));
    json_array_append_new(seen->rows, cells);
    seen->last = row->number;
    seen->begin = row->begin;
    seen->end = row->end;
    return 0;
}

/* Reads a text in pieces of this many bytes; returns the reason of a failure, "" for none. */
static const char *read_text(struct seen *seen, const char *bytes, size_t length, char separator,
                             size_t piece)
{
    static char why[READER_WHY];
    struct bulk_reader *reader = malloc(sizeof *reader);
    int status = 0;

    *seen = (struct seen){.rows = json_array()};
    ck_assert_int_eq(bulk_reader_begin(reader, separator, 0, see, seen), 0);
    for (size_t at = 0; at < length && !status; at += piece)
        status = bulk_reader_feed(reader, bytes + at, length - at < piece ? length - at : piece);
    if (!status)
        bulk_reader_end(reader);
    memcpy(why, reader->why, sizeof why);
    bulk_reader_free(reader);
    free(reader);
    return why;
}

/* Restores CR LF: Git may have removed the CRs from the cases, but their JSON has them. */
static char *with_crlf(char *bytes, size_t *length)
{
    char *longer = malloc(2 * *length + 1), *at = longer;

    ck_assert_ptr_nonnull(longer);
    for (size_t i = 0; i < *length; i++) {
        if (bytes[i] == '\n')
            *at++ = '\r';
        *at++ = bytes[i];
    }
    free(bytes);
    *length = (size_t)(at - longer);
    return longer;
}

/* Converts rows to objects by the names in the first row, like the cases' JSON. */
static json_t *objects(const json_t *rows)
{
    json_t *list = json_array();
    const json_t *header = json_array_get(rows, 0);

    for (size_t i = 1; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_t *object = json_object();

        for (size_t k = 0; k < json_array_size(header); k++)
            json_object_set(object, json_string_value(json_array_get(header, k)),
                            json_array_get(row, k));
        json_array_append_new(list, object);
    }
    return list;
}

/* Writes the same rows with another separator. */
static struct csv written_with(char separator, const json_t *rows)
{
    struct csv csv = {.separator = separator};
    const json_t *row, *cell;
    size_t i, k;

    json_array_foreach (rows, i, row) {
        json_array_foreach (row, k, cell) {
            csv_text(&csv, json_string_value(cell));
        }
        csv_end_row(&csv);
    }
    return csv;
}

static void expect_rows(const char *name, const char *bytes, size_t length, char separator,
                        const json_t *expected)
{
    for (size_t piece = 1; piece <= length; piece = piece < 8 ? piece + 1 : length + 1) {
        struct seen seen;
        const char *why = read_text(&seen, bytes, length, separator, piece);
        json_t *got = objects(seen.rows);

        ck_assert_msg(!*why && json_equal(got, expected), "%s, '%c', pieces of %zu: %s", name,
                      separator, piece, why);
        json_decref(got);
        json_decref(seen.rows);
    }
}

static void expect_case(const char *folder, const char *name)
{
    char path[1024];
    size_t length;

    snprintf(path, sizeof path, "%s/json/%.*s.json", folder, (int)(strlen(name) - 4), name);
    json_t *expected = json_load_file(path, 0, NULL);

    snprintf(path, sizeof path, "%s/csvs/%s", folder, name);
    char *bytes = file_read_bytes(path, &length);

    if (strstr(name, "_crlf") && !memchr(bytes, '\r', length))
        bytes = with_crlf(bytes, &length);
    ck_assert_ptr_nonnull(expected);
    ck_assert_int_eq(scan_separator(bytes, length), ',');
    expect_rows(name, bytes, length, ',', expected);
    for (const char *separator = ";\t"; *separator; separator++) {
        struct seen seen;

        read_text(&seen, bytes, length, ',', length);
        struct csv other = written_with(*separator, seen.rows);

        ck_assert_int_eq(scan_separator(other.bytes, other.length), *separator);
        expect_rows(name, other.bytes, other.length, *separator, expected);
        csv_drop(&other);
        json_decref(seen.rows);
    }
    json_decref(expected);
    free(bytes);
}

TEST(csv_spectrum_is_read_as_its_expected_json)
{
    const char *folder = shared_cases("csv-spectrum");
    const struct dirent *entry;
    int cases = 0;

    if (!folder)
        return;
    DIR *directory = opendir(text("%s/csvs", folder));

    ck_assert_ptr_nonnull(directory);
    while ((entry = readdir(directory)))
        if (strstr(entry->d_name, ".csv")) {
            expect_case(folder, entry->d_name);
            cases++;
        }
    closedir(directory);
    ck_assert_int_ge(cases, 11);
}

#define READS(text, separator, dumped)                                                             \
    expect_dump((text), sizeof(text) - 1, (separator), (dumped), __LINE__)

static void expect_dump(const char *bytes, size_t length, char separator, const char *expected,
                        int line)
{
    struct seen seen;
    const char *why = read_text(&seen, bytes, length, separator, length);
    char *dumped = json_dumps(seen.rows, JSON_COMPACT);

    ck_assert_msg(!*why && !strcmp(dumped, expected), "line %d: %s%s", line, dumped, why);
    free(dumped);
    json_decref(seen.rows);
}

TEST(cells_are_split_at_separators)
{
    READS("a,b\n1,2", ',', "[[\"a\",\"b\"],[\"1\",\"2\"]]");
    READS(" a , b \n", ',', "[[\" a \",\" b \"]]");
    READS("a;b,c;\n", ';', "[[\"a\",\"b,c\",\"\"]]");
    READS("\"a\"\"b\",\"c\nd\"\r\n", ',', "[[\"a\\\"b\",\"c\\nd\"]]");
    READS("5\" pipe,x\n", ',', "[[\"5\\\" pipe\",\"x\"]]");
    READS("a\rb\r\nc\nd", ',', "[[\"a\"],[\"b\"],[\"c\"],[\"d\"]]");
    READS("\n\na\n,\n\"\"\nb\n", ',', "[[\"a\"],[\"b\"]]");
}

TEST(rows_have_the_number_and_offset_of_their_lines)
{
    static const char bytes[] = "h\r\n\r\na\r\n\"x\r\ny\"\r\n,\r\nlast";
    struct seen seen;

    read_text(&seen, bytes, sizeof bytes - 1, ',', 3);
    ck_assert_int_eq(seen.last, 5);
    ck_assert_uint_eq(seen.begin, sizeof bytes - 1 - 4);
    ck_assert_uint_eq(seen.end, sizeof bytes - 1);
    json_decref(seen.rows);
}

/* Which of two rows contradicts the other depends on their order in the file, not in time. */
TEST(the_later_of_two_contradicting_rows_is_reported)
{
    struct scan_claim given[] = {
        {.from = INT64_MIN, .until = INT64_MAX, .number = 1, .name = {9}},
        {.from = 100, .until = 200, .number = 2},
        {.from = 200, .until = 300, .number = 3},
        {.from = 150, .until = 160, .number = 4},
        {.from = 50, .until = 101, .number = 5},
        {.from = INT64_MIN, .until = INT64_MAX, .number = 6, .name = {9}},
        {.from = 310, .until = 320, .number = 7},
        {.from = 300, .until = 311, .number = 8},
        {.from = INT64_MIN, .until = INT64_MAX, .number = 9, .name = {9, [31] = 1}},
    };
    static const int against[][2] = {{4, 2}, {5, 2}, {6, 1}, {8, 7}};
    struct scan_claims claims = {given, sizeof given / sizeof given[0]};

    scan_contradictions(&claims);
    ck_assert_uint_eq(claims.count, sizeof against / sizeof against[0]);
    for (size_t i = 0; i < claims.count; i++) {
        ck_assert_int_eq(claims.list[i].number, against[i][0]);
        ck_assert_int_eq(claims.list[i].against, against[i][1]);
    }
}

/* Each row is a text, and the cell that is written for it. */
TEST(formulas_are_escaped_when_written_and_unescaped_when_read)
{
    static const char *const cells[][2] = {
        {"=1+1", "\"'=1+1\""},
        {"@a", "\"'@a\""},
        {"- x", "\"'- x\""},
        {"\uff1d1", "\"'\uff1d1\""},
        {"\uff20a", "\"'\uff20a\""},
        {"\t=1", "\"'\t'=1\""},
        {" =1", "\" '=1\""},
        {"a;=1", "\"a;'=1\""},
        {"Road 5, -2", "\"Road 5, '-2\""},
        {"x: \"=1\";+2, - y", "\"x: \"\"=1\"\";'+2, '- y\""},
        {"a=1", "a=1"},
        {"-33.9", "-33.9"},
        {"+1,5", "\"+1,5\""},
        {"it's", "it's"},
        {"'t Hof", "'t Hof"},
        {"a|b", "\"a|b\""},
    };

    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        struct csv csv = {.separator = ','};
        struct seen seen;

        csv_text(&csv, cells[i][0]);
        csv_bytes(&csv, "", 1);
        ck_assert_str_eq(csv.bytes, cells[i][1]);
        read_text(&seen, csv.bytes, csv.length - 1, ',', csv.length);
        char *back = strdup(json_string_value(json_array_get(json_array_get(seen.rows, 0), 0)));

        ck_assert_int_eq(csv_take_back(NULL, back), strcmp(back, cells[i][0]) != 0);
        csv_take_back(back, back);
        ck_assert_str_eq(back, cells[i][0]);
        free(back);
        json_decref(seen.rows);
        csv_drop(&csv);
    }
}

/* ---- the header line ---- */

static bool is_known(const void *arg, const char *name)
{
    (void)arg;
    return !strcasecmp(name, "externalId") || !strcasecmp(name, "siteName") ||
           !strcasecmp(name, "capacity");
}

static struct scan *scan; /* the last scan */

static void forget(void)
{
    if (scan)
        scan_free(scan);
    free(scan);
    scan = NULL;
}

static void read_scan(const char *bytes, size_t length)
{
    char path[64];
    int fd = memfd_create("csv", 0);

    forget();
    scan = calloc(1, sizeof *scan);
    ck_assert_ptr_nonnull(scan);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *scan = (struct scan){.path = path,
                          .part_rows = 500,
                          .rows_max = 1000,
                          .is_column = is_known,
                          .names = "externalId, siteName, capacity"};
    scan_run(scan);
    scan->path = NULL;
    close(fd);
}

struct head {
    const char *file, *names; /* names of the columns, each followed by a space */
    char separator;
};

TEST(the_separator_is_detected_by_known_columns)
{
    static const struct head heads[] = {
        {"externalId,siteName,capacity\nz,S,5\n", "externalId siteName capacity ", ','},
        {"\r\nexternalId;siteName;capacity\r\nz1;S;5\r\n", "externalId siteName capacity ", ';'},
        {"externalId;siteName;a,b,capacity\nz;S;5\n", "externalId siteName a,b,capacity ", ';'},
        {"externalId;siteName;Leistung (kW, AC, netto, max);capacity\nz;S;1;5\n",
         "externalId siteName Leistung (kW, AC, netto, max) capacity ", ';'},
        {"externalId|siteName\nz|S\n", "externalId siteName ", '|'},
        {"externalId\tsiteName\nz\tS\n", "externalId siteName ", '\t'},
        {"sep=;\r\nexternalId;capacity\r\nz;5\r\n", "externalId capacity ", ';'},
        {"\xef\xbb\xbfSEP=,\nexternalId,a;siteName;b\nz,1\n", "externalId a;siteName;b ", ','},
        {"\"sep=|\"\n\nexternalId|capacity\nz|5\n", "externalId capacity ", '|'},
        {"sep=#\nexternalId#capacity\nz#5\n", "externalId capacity ", '#'},
        {"sep=\t\nexternalId\tcapacity\nz\t5\n", "externalId capacity ", '\t'},
        {"\u00a0externalId\u00a0;\ufeffsiteName;cap\u200bacity ;\"=\"\"x\"\"\"\nz;S;5;\n",
         "externalId siteName capacity x ", ';'},
        {"externalId\nz\n", "externalId ", ','},
        {"externalId;\"a\nb\";capacity\nz;1;2", "externalId a\nb capacity ", ';'},
    };

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        read_scan(heads[i].file, strlen(heads[i].file));
        char names[256] = "";

        ck_assert_msg(!scan->status, "%zu: %s", i, scan->why);
        for (size_t k = 0; k < json_array_size(scan->header); k++)
            strcat(strcat(names, json_string_value(json_array_get(scan->header, k))), " ");
        ck_assert_str_eq(names, heads[i].names);
        ck_assert_int_eq(scan->separator, heads[i].separator);
        ck_assert_uint_eq(scan->rows, 1);
        ck_assert_int_eq(scan->parts[0].first, 1);
    }
}

#define COLUMNS_ARE "The columns are externalId, siteName, capacity; template.csv is an example"

TEST(a_header_without_known_columns_is_refused_with_what_to_change)
{
    static const char *const files[][2] = {
        {"Plant;Power\nA;5\nB;6\n",
         "Line 1 must be the header line, and has no known column (it has: Plant, Power). "
         "Rename its columns, or put a header line before it. " COLUMNS_ARE},
        {"My export of plants\n\nexternalId,capacity\nA,5\n",
         "Line 1 must be the header line, and has no known column (it has: My export of plants). "
         "Line 3 looks like the header: delete the lines before it. " COLUMNS_ARE},
        {"sep=;\nPlant;Power\nA;5\n",
         "Line 2 must be the header line, and has no known column (it has: Plant, Power). "
         "Rename its columns, or put a header line before it. " COLUMNS_ARE},
        {"123456789 123456789 123456789 123456789 1,2,,3,4,5,6\n7\n",
         "Line 1 must be the header line, and has no known column (it has: 123456789 123456789 "
         "123456789 123456789 , 2, 3, 4, 5). "
         "Rename its columns, or put a header line before it. " COLUMNS_ARE},
    };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        read_scan(files[i][0], strlen(files[i][0]));
        ck_assert_int_eq(scan->status, 400);
        ck_assert_str_eq(scan->why, files[i][1]);
    }
}

TEST(the_header_line_has_up_to_16_kib)
{
    char *file = malloc(40000);
    size_t length = (size_t)sprintf(file, "externalId,");

    memset(file + length, 'x', 16384 - length - 1);
    sprintf(file + 16383, "\nz,1\n");
    read_scan(file, strlen(file));
    ck_assert_msg(!scan->status, "%s", scan->why);
    sprintf(file + 16383, "x\nz,1\n");
    read_scan(file, strlen(file));
    ck_assert_int_eq(scan->status, 400);
    ck_assert_str_eq(
        scan->why, "The header line has more than 16 KiB: remove the columns that are not needed");
    free(file);
}

struct limit {
    const char *begin, *fill; /* a file has this text, and `most` times the other one */
    size_t most;
    int status; /* with one more, and the reason */
    const char *why;
};

static void read_filled(const struct limit *limit, size_t count)
{
    const char *file =
        text("externalId,capacity\n%s%s\n", limit->begin, text_repeated(limit->fill, count));

    read_scan(file, strlen(file));
}

TEST(a_file_may_reach_each_limit_but_not_exceed_it)
{
    const char *cells = text_repeated(text("%s,", text_repeated("x", 32768)), 7);
    const struct limit limits[] = {
        {"", "x", 32768, 400,
         "The file is not CSV: row 1 has a cell of more than 32,768 bytes: is a quote not closed?"},
        {"a", ",", 999, 400, "The file is not CSV: row 1 has more than 1,000 cells"},
        {cells, "x", 262144 - 7 * 32769, 400,
         "The file is not CSV: row 1 has more than 256 KiB: is a quote not closed?"},
        {"", "z,1\n", 1000, 413, "The file has more than 1000 rows: send it in parts"},
    };
    const struct limit parts = {.begin = "", .fill = text("%s\n", text_repeated("x", 1023))};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        read_filled(&limits[i], limits[i].most);
        ck_assert_msg(!scan->status, "%zu: %s", i, scan->why);
        read_filled(&limits[i], limits[i].most + 1);
        ck_assert_int_eq(scan->status, limits[i].status);
        ck_assert_str_eq(scan->why, limits[i].why);
    }
    ck_assert_uint_eq(scan->parts[0].rows, 500);
    read_filled(&parts, 300);
    ck_assert_uint_eq(scan->parts[0].rows, 256);
    ck_assert_uint_eq(scan->parts[0].end, scan->parts[1].begin);
    ck_assert_int_eq(scan->parts[1].first, 257);
}

TEST(files_of_other_types_are_recognized_by_their_first_bytes)
{
    static const char *const kinds[][2] = {
        {"PK\x03\x04x", "a workbook (.xlsx) or archive"},
        {"\xd0\xcf\x11\xe0x", "a workbook (.xls)"},
        {"\x89PNGx", "a picture (PNG)"},
        {"\xff\xd8\xffx", "a picture (JPEG)"},
        {"GIF8x", "a picture (GIF)"},
        {"%PDFx", "a PDF document"},
        {"\x1f\x8bx", "a compressed file (gzip)"},
        {"\xff\xfex", "text in UTF-16"},
        {"\xfe\xffx", "text in UTF-16"},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *why = text("The file is %s and not CSV: save it as CSV UTF-8", kinds[i][1]);

        read_scan(kinds[i][0], strlen(kinds[i][0]));
        ck_assert_int_eq(scan->status, 400);
        ck_assert_msg(!strncmp(scan->why, why, strlen(why)), "%s", scan->why);
    }
}

/* Files are read in pieces of 64 KiB, which may cut a character. */
TEST(utf8_is_checked_across_pieces)
{
    static const char *const wrong[] = {"\x80",         "\xc0\x80",         "\xc3(", "\xe0\x80\x80",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"};
    char file[65636];

    for (size_t cut = 0; cut < 4 * (1 + sizeof wrong / sizeof wrong[0]); cut++) {
        const char *bytes = cut < 4 ? "\xf0\x9f\x98\x80" : wrong[cut / 4 - 1];

        memset(file, 'a', sizeof file);
        for (size_t i = 99; i < sizeof file; i += 100)
            file[i] = '\n';
        memcpy(file, "externalId\n", 11);
        memcpy(file + 65536 - cut % 4, bytes, strlen(bytes));
        read_scan(file, sizeof file);
        ck_assert_msg(scan->status == (cut < 4 ? 0 : 400), "%zu: %d %s", cut, scan->status,
                      scan->why);
        ck_assert(cut < 4 || !strncmp(scan->why, "The file is not UTF-8", 21));
    }
    read_scan("externalId\na\0b\n", 15);
    ck_assert_int_eq(scan->status, 400);
    ck_assert(!strncmp(scan->why, "The file has NUL bytes", 22));
}

TEST(values_in_columns_without_a_name_are_found)
{
    static const char file[] = "externalId,capacity,,\nn0,5,,\nn1,5, ,60\nn2,5,,70\n";
    read_scan(file, sizeof file - 1);
    ck_assert_int_eq(scan->status, 0);
    ck_assert_int_eq(scan->unnamed[2], 0);
    ck_assert_int_eq(scan->unnamed[3], 2);
}

TEST(rows_of_invisible_characters_are_blank)
{
    static const char file[] =
        "externalId,capacity\na,1\n \u00a0,\n\u200b,\u2060\ufeff\nb,2\n,\u3000\t\n";
    read_scan(file, sizeof file - 1);
    ck_assert_int_eq(scan->status, 0);
    ck_assert_uint_eq(scan->rows, 2);
    ck_assert_int_eq(scan->parts[0].last, 4);
}

TEST(long_texts_are_cut_between_characters)
{
    ck_assert_uint_eq(blank_cut("abc", 3), 3);
    ck_assert_uint_eq(blank_cut("abcd", 3), 3);
    ck_assert_uint_eq(blank_cut("a\u00fc", 2), 1);
    ck_assert_uint_eq(blank_cut("\U0001f600", 3), 0);
}

SUITE(csv, .after_each = forget)
