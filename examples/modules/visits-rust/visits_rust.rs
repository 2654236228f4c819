//! visits_rust: counts the visits of each caller. A module in Rust; visits-cpp is the same in C++.
#[macro_use]
mod busbar;
mod request;

use busbar::*;
use request::{bb_i, bb_t, Request, Value};
use std::ffi::CStr;
use std::os::raw::c_int;

static COUNT_VISIT: bb_sql = bb_sql {
    text: c!("INSERT INTO visits_rust VALUES ($1, $2::bigint) ON CONFLICT (email) \
              DO UPDATE SET n = visits_rust.n + $2::bigint RETURNING n"),
    flags: BB_SQL_WRITE,
};

fn name(bytes: &'static [u8]) -> &'static CStr {
    CStr::from_bytes_with_nul(bytes).expect("ends in a zero")
}

/// Panics if the greeting does not contain {name}.
fn greet(greeting: &str, visitor: &str) -> String {
    let (before, behind) = greeting.split_once("{name}").expect("a place for the name");

    format!("{before}{visitor}{behind}")
}

fn visit(rq: &Request) -> c_int {
    let step = rq.setting_int(name(b"step\0"));
    let (email, visitor) = match (rq.email(), rq.text(name(b"name\0"))) {
        (Some(email), Some(visitor)) => (email, visitor),
        _ => return rq.fail(400),
    };
    let visits = match rq.query_int(&COUNT_VISIT, &[bb_t(email), bb_i(step)]) {
        Some(visits) => visits,
        None => return rq.failed(),
    };
    let text = greet(rq.setting_text(name(b"greeting\0")), visitor);

    rq.reply(200, &[(name(b"text\0"), Value::Text(&text)), (name(b"visits\0"), Value::Int(visits))])
}

extern "C" fn visit_route(raw: *mut bb_request) -> c_int {
    Request::serve(raw, visit)
}

static SETTINGS: [bb_field; 2] = [
    bb_field {
        name: c!("greeting"),
        kind: BB_TEXT,
        max: 80,
        fallback: c!("Welcome, {name}"),
        help: c!("What it says; {name} is the visitor's."),
        ..bb_field::ZERO
    },
    bb_field {
        name: c!("step"),
        kind: BB_INT,
        min: 1,
        max: 10,
        fallback: c!("1"),
        help: c!("What a visit counts."),
        ..bb_field::ZERO
    },
];
static BODY: [bb_field; 1] = [bb_field {
    name: c!("name"),
    kind: BB_TEXT,
    flags: BB_REQUIRED | BB_NOT_BLANK,
    max: 80,
    ..bb_field::ZERO
}];
static REPLY: [bb_field; 2] = [
    bb_field { name: c!("text"), kind: BB_TEXT, flags: BB_REQUIRED, ..bb_field::ZERO },
    bb_field {
        name: c!("visits"),
        kind: BB_INT,
        flags: BB_REQUIRED,
        help: c!("Of the caller."),
        ..bb_field::ZERO
    },
];
static ROUTES: [bb_route; 1] = [bb_route {
    method: c!("POST"),
    path: c!("/api/visits-rust"),
    roles: BB_ANY_ROLE,
    handler: Some(visit_route),
    body: table(&BODY),
    reply: table(&REPLY),
    help: c!("Counts a visit of the caller."),
    ..bb_route::ZERO
}];

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static busbar_module: bb_module = bb_module {
    schema: c!("-- step 1: the visits of each account\n\
                CREATE TABLE visits_rust (email text PRIMARY KEY, n bigint NOT NULL);\n"),
    settings: table(&SETTINGS),
    routes: table(&ROUTES),
    ..bb_module::new(c!("visits_rust"), c!("1.0.0"))
};
