/* Tests contacts without a host: `make check`. The test takes the role of the module bulk. */
#include <busbar/fake.h>
#include <stdio.h>
#include <string.h>

extern const struct bb_module busbar_module;

enum { ROWS = 4 };

static int failed;

static void expect(bool right, const char *what)
{
    printf("%s: %s\n", right ? "ok" : "FAILED", what);
    failed += !right;
}

/* One call of the service, with rows of a file. The columns are email, name, phone. */
struct call {
    const struct bb_bulk_rows *type;
    const char *const cells[ROWS][3];
    struct bb_bulk_row rows[ROWS];
    char said[200]; /* a copy of the problems, which are freed after the call */
    int result;
};

static struct bb_bulk_row **rows_of(struct bb_request *rq, struct call *call)
{
    struct bb_bulk_row **list = bb_alloc(rq, ROWS * sizeof(*list));

    for (int i = 0; i < ROWS; i++) {
        call->rows[i] = (struct bb_bulk_row){
            .size = sizeof call->rows[i], .number = i + 1, .cells = call->cells[i]};
        list[i] = &call->rows[i];
    }
    return list;
}

static void note(struct call *call)
{
    size_t used = 0;

    call->said[0] = '\0';
    for (int i = 0; i < ROWS; i++)
        for (const struct bb_bulk_problem *at = call->rows[i].problems; at; at = at->next)
            used += (size_t)snprintf(call->said + used, sizeof call->said - used, "%d %s %s; ",
                                     i + 1, at->field, at->problem);
}

static const struct bb_bulk_job job = {.size = sizeof job, .organisation = 7};

static void check(struct bb_request *rq, void *arg)
{
    struct call *call = arg;
    struct bb_bulk_row **rows = rows_of(rq, call);

    call->result = call->type->check(rq, &job, rows, ROWS);
    note(call);
    expect(!call->rows[0].claim.name || !strcmp(call->rows[0].claim.name, "ada@solar.example"),
           "what is claimed is in lower case");
}

static int store_in(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct call *call = arg;

    call->result = call->type->store(rq, tx, &job, rows_of(rq, call), ROWS);
    note(call);
    return call->result ? bb_failed(rq) : 200;
}

static void store(struct bb_request *rq, void *arg)
{
    bb_transaction(rq, store_in, arg);
}

static void bad_rows_are_told(struct bb_fake *fake, struct call *call)
{
    bb_fake_rows(fake, "JOIN contacts_person", 1, 1, "4");
    bb_run(bb_fake_host(fake), check, call);
    expect(!call->result, "the check goes well");
    expect(!strcmp(call->said, "2 email must be an e-mail address; 2 name is required; 3 phone may "
                               "have digits, spaces and + - / ( ); 4 email is there already; "),
           "it tells row, column and reason");
    expect(!strcmp(bb_fake_parameter(fake, 0, 0), "7"), "it looks in the job's organisation");
    expect(strstr(bb_fake_parameter(fake, 0, 1), "bo@solar.example") &&
               !strstr(bb_fake_parameter(fake, 0, 1), "nobody"),
           "for rows that are sound");
}

static void good_rows_are_stored(struct bb_fake *fake, struct call *call)
{
    bb_fake_rows(fake, "INSERT INTO contacts_person", 1, 1, "4");
    bb_run(bb_fake_host(fake), store, call);
    expect(!call->result && strstr(call->said, "4 email is there already"), "store tells it too");
    bb_fake_refuses(fake, "INSERT INTO contacts_person", "", NULL);
    bb_run(bb_fake_host(fake), store, call);
    expect(call->result == -1, "without the database the call fails, not the rows");
}

static void people_are_listed(struct bb_fake *fake)
{
    bb_fake_rows(fake, "SELECT email, name", 1, 3, "bo@solar.example", "Bo", (const char *)NULL);
    expect(bb_fake_call(fake, "GET", "/api/contacts", NULL) == 200, "the list is answered");
    expect(json_array_size(bb_fake_reply(fake)) == 1, "with each person");
}

int main(void)
{
    static struct call call = {.cells = {{"Ada@Solar.example", "Ada", NULL},
                                         {"nobody", NULL, "1"},
                                         {"cy@solar.example", "Cy", "call me"},
                                         {"bo@solar.example", "Bo", "+49 (30) 1234"}}};
    struct bb_fake *fake = bb_fake_new(&busbar_module);
    const struct bb_service_descriptor *descriptor = busbar_module.services.rows;

    call.type = descriptor->interface;
    expect(!bb_fake_open(fake), "it opens");
    expect(!strcmp(descriptor->name, "bulk rows:Contacts"), "it gives rows of a type");
    bad_rows_are_told(fake, &call);
    good_rows_are_stored(fake, &call);
    people_are_listed(fake);
    bb_fake_free(fake);
    return failed ? 1 : 0;
}
