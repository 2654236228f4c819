//! notes: each account keeps short notes.
#![forbid(unsafe_code)]
use busbar::*;

const SCHEMA: Text = c!(concat!(
    "-- step 1: notes\n\
     CREATE SEQUENCE notes_id AS bigint;\n\
     CREATE TABLE notes_note (account bigint NOT NULL, id bigint NOT NULL, body text NOT NULL, \
     created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account, id));\n",
    //: with job
    "CREATE INDEX notes_note_age ON notes_note (created_at);\n",
    //: end
));
//: with setting

const SETTINGS: &[Field] = &[Field::int(c!("per_account"))
    .range(1, 1000000)
    .fallback(c!("1000"))
    .help(c!("Maximum number of notes of an account."))];
//: end
//: with route

const MEMBERS: &[Field] = &[Field::int(c!("id")).required(), Field::text(c!("text")).required()];

fn item(id: i64, text: &str) -> Json {
    Json::object().set("id", id).set("text", text)
}

// ---- POST /api/notes ----

fn create(rq: &Request) -> Answer {
    //: with setting
    static ROOM: Sql = Sql::read(c!(
        "SELECT busbar_require(count(*) < $2::bigint, 409, 'You have too many notes.') \
         FROM notes_note WHERE account = $1::bigint"
    ));
    //: end
    static INSERT: Sql =
        Sql::write(c!("INSERT INTO notes_note (account, id, body) VALUES ($1::bigint, $2::bigint, $3)"));
    let caller = rq.caller()?;
    let id = rq.next_id("notes_id")?; // so the response is known before the commit
    let text = rq.text("text").unwrap_or("");
    let unit = rq.unit(caller.account())?; // one account's units run in order

    //: with setting
    unit.add(&ROOM, &[caller.account().into(), rq.setting_int("per_account").into()])?;
    //: end
    unit.add(&INSERT, &[caller.account().into(), id.into(), text.into()])?;
    //: with event
    unit.emit("note.created", item(id, text), &Audience { emails: &[caller.email()], ..Default::default() })?;
    //: end
    unit.commit(201, item(id, text))
}

// ---- GET /api/notes ----

fn list(rq: &Request) -> Answer {
    static PAGE: Sql = Sql::read(c!(
        "SELECT id, body FROM notes_note WHERE account = $1::bigint AND id > $2::bigint \
         ORDER BY id LIMIT $3::bigint"
    ));
    let (limit, after) = (rq.arg_int("limit", 100), rq.arg_int("after", 0));
    let account = rq.caller()?.account();
    // one row more shows that there is a next page
    let rows = rq.query(&PAGE, &[account.into(), after.into(), (limit + 1).into()])?;

    rq.reply_rows(&rows, limit as usize, 0, |row| item(row.int(0), row.text(1).unwrap_or("")))
}
//: end
//: with job

// ---- the job: deletes notes that are older than a year ----

fn expire(rq: &Request) -> Result<(), Error> {
    static OLD: Sql = Sql::write(c!(
        "DELETE FROM notes_note WHERE (account, id) IN (SELECT account, id FROM notes_note \
         WHERE created_at < now() - interval '1 year' LIMIT 1000)"
    ))
    .long();

    if rq.query(&OLD, &[])?.affected() == 1000 {
        rq.again(); // more may be left
    }
    Ok(())
}

const JOBS: &[Job] = &[Job::once(c!("notes.expire"), 3600, expire)];
//: end
//: with bulk

// ---- bulk uploads with type=notes ----

const COLUMNS: &[Field; 1] = &[Field::text(c!("text"))
    .example(c!("Call the grid operator."))
    .help(c!("Required; at most 1,000 bytes."))];

fn check(_: &Request, _: &BulkJob, rows: &[BulkRow]) -> Result<(), Error> {
    for row in rows {
        match row.cell(0) {
            None => row.problem("text", "is required")?,
            Some(text) if text.len() > 1000 => row.problem("text", "must have at most 1000 bytes")?,
            Some(_) => {}
        }
    }
    Ok(())
}

fn store(rq: &Request, tx: &Tx, job: &BulkJob, rows: &[BulkRow]) -> Result<(), Error> {
    static INSERT: Sql = Sql::write(c!(
        "INSERT INTO notes_note (account, id, body) VALUES ($1::bigint, nextval('notes_id'), $2)"
    ));

    check(rq, job, rows)?;
    for row in rows.iter().filter(|row| !row.is_refused()) {
        tx.query(&INSERT, &[job.account().into(), row.cell(0).into()])?;
    }
    Ok(())
}

static BULK_ROWS: BulkRows = BulkRows::new(c!("Notes of the sender."), BB_ANY_ROLE, COLUMNS, check, store);
static SERVICES: [Service; 1] = [Service::bulk(c!("bulk rows:notes"), &BULK_ROWS)];
//: end
//: with route

// ---- the tables ----

const BODY: &[Field] = &[Field::text(c!("text"))
    .required()
    .not_blank()
    .verbatim()
    .range(0, 1000)
    .example(c!("Call the grid operator."))];
const QUERY: &[Field] = &[
    Field::int(c!("limit")).range(1, 100).help(c!("Number of notes per page.")),
    Field::int(c!("after")).range(0, i64::MAX).help(c!("Cursor of the Link.")),
];
const LIST_ITEM: &[Field] = &[Field::object(c!("item"), MEMBERS)];
const LIST_REPLY: &[Field] = &[Field::list(c!("."), LIST_ITEM)];

const ROUTES: &[Route] = &[
    Route::new(c!("POST"), c!("/api/notes"), BB_ANY_ROLE, create)
        .creates(201)
        .body(BODY)
        .reply(MEMBERS)
        //: with setting
        .errors(&[409, 0])
        //: end
        .help(c!("Create a note.")),
    Route::new(c!("GET"), c!("/api/notes"), BB_ANY_ROLE, list)
        .query(QUERY)
        .reply(LIST_REPLY)
        .help(c!("List your notes, the oldest first.")),
];
//: end
//: with event
const EVENTS: &[EventType] = &[EventType::new(c!("note.created"), MEMBERS, c!("A new note."))];
//: end

busbar::module!(Module::new(c!("notes"), c!("1.0.0"))
    .help(c!("Short notes of accounts."))
    .schema(SCHEMA)
    //: with setting
    .settings(SETTINGS)
    //: end
    //: with route
    .routes(ROUTES)
    //: end
    //: with event
    .events(EVENTS)
    //: end
    //: with job
    .jobs(JOBS)
    //: end
    //: with bulk
    .services(&SERVICES)
    //: end
);
