/* Prints the rows of an import that failed or were cancelled, in the format of GET …/failed.csv. */
#include <unistd.h>

#include "modules/bulk/command/import.h"
#include "modules/common/csv.h"

struct printing {
    struct import *import;
    int64_t behind;
    int found;
};

/*
 * Replaces control characters, so that a file's content cannot control the terminal. A terminal
 * needs no CR at line ends.
 */
static void tame(struct csv *csv)
{
    char *out = csv->bytes;

    for (size_t i = 0; i < csv->length; i++) {
        unsigned char c = (unsigned char)csv->bytes[i];
        unsigned char next = i + 1 < csv->length ? (unsigned char)csv->bytes[i + 1] : '\0';
        bool pair = c == 0xc2 && next >= 0x80 && next < 0xa0; /* U+0080 to U+009F */

        if (c == '\r' && next == '\n')
            continue;
        *out++ = pair || c == 0x7f || (c < 0x20 && c != '\n' && c != '\t') ? '?' : (char)c;
        i += pair;
    }
    csv->length = (size_t)(out - csv->bytes);
}

/* Prints one part; the header line precedes the first one. A terminal needs no byte order mark. */
static int print_part(struct bb_request *rq, void *arg)
{
    struct printing *printing = arg;
    const struct bulk_job *job = &printing->import->job;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));

    bb_defer(rq, csv_drop, csv);
    csv->separator = job->separator[0];
    bool terminal = isatty(STDOUT_FILENO);

    if (!printing->behind)
        bulk_failed_header(csv, header, !terminal);
    printing->found =
        bulk_failed_part(rq, job->id, header, printing->import->cancelled, &printing->behind, csv);
    if (csv->failed)
        printing->found = -1;
    if (printing->found > 0 && terminal)
        tame(csv);
    if (printing->found > 0)
        bb_print(rq, "%.*s", (int)csv->length, csv->bytes);
    return 0;
}

void import_print_failed(struct bb_request *rq, struct import *import)
{
    struct printing printing = {.import = import, .found = 1};

    while (printing.found > 0)
        bb_scratch(rq, print_part, &printing);
    if (printing.found < 0)
        terminal_line(&import->terminal, "busbar: the failed rows could not be read");
}
