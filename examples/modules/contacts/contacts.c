/*
 * contacts: people to call about the plants of an organization. It adds a type to bulk uploads, so
 * you can upload a spreadsheet of people with POST /api/bulk-upload?type=Contacts or `busbar bulk
 * import people.csv --type Contacts`. GET /api/contacts lists them.
 */
#include <busbar/bulk.h>
#include <busbar/busbar.h>
#include <ctype.h>
#include <string.h>

enum { EMAIL, NAME, PHONE, COLUMNS };

static const struct bb_field columns[COLUMNS] = {
    [EMAIL] = {.name = "email",
               .type = BB_TEXT,
               .example = "bo@solar.example",
               .help = "Unique in the organization, in any case."},
    [NAME] = {.name = "name", .type = BB_TEXT, .example = "Bo Berg", .help = "Required."},
    [PHONE] = {.name = "phone",
               .type = BB_TEXT,
               .alias = "telephone",
               .example = "+49 30 1234",
               .help = "Digits and + - / ( )."}};

/* ---- checks of a single row ---- */

/* Returns the cell in lower case, the form in which e-mails are compared, stored and claimed. */
static const char *folded(struct bb_request *rq, const char *cell)
{
    char *text = bb_format(rq, "%s", cell);

    for (char *at = text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return text;
}

/* Adds problems with the names of columns, because their readers have the spreadsheet open. */
static bool is_sound(struct bb_request *rq, struct bb_bulk_row *row)
{
    const char *email = row->cells[EMAIL], *phone = row->cells[PHONE];
    const char *at = email ? strchr(email, '@') : NULL;

    if (!email)
        bb_bulk_problem(rq, row, "email", "is required");
    else if (!at || at == email || !at[1] || strpbrk(email, " \t\r\n,;") || strlen(email) > 254)
        bb_bulk_problem(rq, row, "email", "must be an e-mail address");
    if (!row->cells[NAME])
        bb_bulk_problem(rq, row, "name", "is required");
    if (phone && phone[strspn(phone, "0123456789 +-/()")])
        bb_bulk_problem(rq, row, "phone", "may have digits, spaces and + - / ( )");
    return !row->problems;
}

/* ---- all rows of a call in one statement ---- */

static void drop(void *json)
{
    json_decref(json);
}

/* Returns the valid rows as a JSON array for json_to_recordset(), or NULL if memory is short. */
static const char *sound_rows(struct bb_request *rq, struct bb_bulk_row *const *rows, size_t count)
{
    json_t *list = json_array();
    bool lost = !list;
    size_t length;

    bb_defer(rq, drop, list);
    for (size_t i = 0; i < count && !lost; i++) {
        const char *const *cells = rows[i]->cells;

        if (is_sound(rq, rows[i]))
            lost = json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:s?}", "number",
                                                         (json_int_t)rows[i]->number, "email",
                                                         folded(rq, cells[EMAIL]), "name",
                                                         cells[NAME], "phone", cells[PHONE])) != 0;
    }
    if (!lost)
        return bb_json(rq, list, &length);
    bb_no_memory(rq);
    return NULL;
}

/* Adds a problem to each row whose number is in `taken`. Both are in the order of the numbers. */
static void tell_taken(struct bb_request *rq, const struct bb_rows *taken,
                       struct bb_bulk_row *const *rows, size_t count)
{
    size_t next = 0;

    for (size_t i = 0; i < count && next < bb_count(rq, taken); i++) {
        if (rows[i]->number != bb_cell_int(rq, taken, next, 0))
            continue;
        bb_bulk_problem(rq, rows[i], "email", "is there already");
        next++;
    }
}

#define ROWS "json_to_recordset($2::json) AS r (number bigint, email text, name text, phone text)"

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    static const struct bb_sql find = {"SELECT r.number FROM " ROWS
                                       " JOIN contacts_person p ON p.organisation = $1::bigint"
                                       " AND p.email = r.email ORDER BY r.number",
                                       0};
    const char *list = sound_rows(rq, rows, count);
    const struct bb_rows *taken = bb_query(rq, &find, BB_ARGS(bb_i(job->organization), bb_t(list)));

    if (!taken)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!rows[i]->problems) /* the second of two rows with this e-mail gets a problem */
            rows[i]->claim =
                (struct bb_bulk_claim){.name = folded(rq, rows[i]->cells[EMAIL]), .field = "email"};
    tell_taken(rq, taken, rows, count);
    return 0;
}

/* Inserts in the order of e-mails, so that two jobs cannot deadlock. */
static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    static const struct bb_sql insert = {
        "WITH row AS (SELECT r.*, row_number() OVER (PARTITION BY email ORDER BY number) AS nth"
        " FROM " ROWS "), made AS (INSERT INTO contacts_person (organisation, email, name, phone)"
        " SELECT $1::bigint, email, name, phone FROM row WHERE nth = 1 ORDER BY email"
        " ON CONFLICT DO NOTHING RETURNING email)"
        " SELECT number FROM row WHERE nth > 1 OR email NOT IN (SELECT email FROM made)"
        " ORDER BY number",
        BB_SQL_WRITE};
    const char *list = sound_rows(rq, rows, count);
    const struct bb_rows *taken =
        list ? bb_tx_query(rq, tx, &insert, BB_ARGS(bb_i(job->organization), bb_t(list))) : NULL;

    if (!taken)
        return -1;
    tell_taken(rq, taken, rows, count);
    return 0;
}

static const struct bb_bulk_rows contacts = {.size = sizeof contacts,
                                             .help = "People to call about plants.",
                                             .roles = BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
                                             .columns = BB_TABLE(columns),
                                             .name_column = EMAIL,
                                             .check = check,
                                             .store = store};
static const struct bb_service_descriptor services[] = {{BB_BULK_ROWS "Contacts", 1, &contacts}};

/* ---- the route ---- */

enum { PAGE = 100 };

static json_t *person(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return json_pack("{s:s, s:s, s:s?}", "email", bb_cell(rq, rows, row, 0), "name",
                     bb_cell(rq, rows, row, 1), "phone", bb_cell(rq, rows, row, 2));
}

static int list(struct bb_request *rq)
{
    static const struct bb_sql page = {
        "SELECT email, name, phone FROM contacts_person WHERE organisation = $1::bigint"
        " AND email > coalesce($2, '') ORDER BY email LIMIT 101",
        0};
    const struct bb_rows *rows =
        bb_query(rq, &page, BB_ARGS(bb_i(rq->principal->organization), bb_t(bb_arg(rq, "after"))));

    return rows ? bb_reply_rows(rq, rows, PAGE, 0, person) : bb_failed(rq);
}

static const struct bb_field query[] = {
    {.name = "after", .type = BB_TEXT, .max = 254, .help = "Cursor of a Link header."}};
static const struct bb_field members[] = {
    {.name = "email", .type = BB_TEXT, .flags = BB_REQUIRED},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED},
    {.name = "phone", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE}};
static const struct bb_field item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(members)}};
static const struct bb_field reply[] = {{.name = ".", .type = BB_LIST, .fields = BB_TABLE(item)}};
static const struct bb_route routes[] = {{.method = "GET",
                                          .path = "/api/contacts",
                                          .roles = BB_ANY_ROLE,
                                          .handler = list,
                                          .query = BB_TABLE(query),
                                          .reply = BB_TABLE(reply),
                                          .help = "Contacts of the caller's organization."}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("contacts", "1.0.0"), .help = "Contacts for an organization's plants.",
    .schema = "-- step 1: people\n"
              "CREATE TABLE contacts_person (organisation bigint NOT NULL, email text NOT NULL,"
              " name text NOT NULL, phone text, PRIMARY KEY (organisation, email));\n",
    .routes = BB_TABLE(routes), .services = BB_TABLE(services)};
