//! Tests visits_rust without a host, with the fake of busbar/fake.h: `make check`.
use crate::busbar::{bb_module, json_t};
use crate::busbar_module;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};
use std::ptr::null;

#[repr(C)]
struct bb_fake {
    _inside: [u8; 0],
}

extern "C" {
    fn bb_fake_new(module: *const bb_module) -> *mut bb_fake;
    fn bb_fake_free(fake: *mut bb_fake);
    fn bb_fake_set(fake: *mut bb_fake, name: *const c_char, value: *const c_char);
    fn bb_fake_open(fake: *mut bb_fake) -> c_int;
    fn bb_fake_rows(fake: *mut bb_fake, part: *const c_char, rows: usize, columns: usize, ...);
    fn bb_fake_refuses(
        fake: *mut bb_fake, part: *const c_char, sqlstate: *const c_char, constraint: *const c_char,
    );
    fn bb_fake_call(
        fake: *mut bb_fake, method: *const c_char, path: *const c_char, body: *const c_char,
    ) -> c_int;
    fn bb_fake_reply(fake: *const bb_fake) -> *mut json_t;
    fn bb_fake_field(fake: *const bb_fake) -> *const c_char;
    fn bb_fake_parameter(fake: *const bb_fake, index: usize, parameter: usize) -> *const c_char;
    fn bb_fake_log(fake: *const bb_fake) -> *const c_char;
    fn json_dumps(json: *const json_t, flags: usize) -> *mut c_char;
    fn free(memory: *mut c_char);
}

const JSON_COMPACT: usize = 0x20;
const STATEMENT: *const c_char = c!("INSERT INTO visits_rust");

struct Fake(*mut bb_fake);

fn text(found: *const c_char) -> String {
    assert!(!found.is_null());
    unsafe { CStr::from_ptr(found) }.to_str().unwrap().to_string()
}

impl Fake {
    fn open(greeting: &str) -> Fake {
        let greeting = CString::new(greeting).unwrap();

        unsafe {
            let fake = bb_fake_new(&busbar_module);

            bb_fake_set(fake, c!("greeting"), greeting.as_ptr());
            bb_fake_set(fake, c!("step"), c!("3"));
            assert_eq!(bb_fake_open(fake), 0);
            bb_fake_rows(fake, STATEMENT, 1, 1, c!("7"));
            Fake(fake)
        }
    }

    fn post(&self, body: &str) -> c_int {
        let body = CString::new(body).unwrap();

        unsafe { bb_fake_call(self.0, c!("POST"), c!("/api/visits-rust"), body.as_ptr()) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        unsafe { bb_fake_free(self.0) }
    }
}

#[test]
fn a_visit_is_greeted_and_counted() {
    let fake = Fake::open("Ahoy, {name}!");

    assert_eq!(fake.post("{\"name\": \"Ada\"}"), 200);
    unsafe {
        let reply = json_dumps(bb_fake_reply(fake.0), JSON_COMPACT);

        assert_eq!(text(reply), "{\"text\":\"Ahoy, Ada!\",\"visits\":7}");
        free(reply);
        assert_eq!(text(bb_fake_parameter(fake.0, 0, 0)), "ada@example.com");
        assert_eq!(text(bb_fake_parameter(fake.0, 0, 1)), "3");
    }
}

#[test]
fn a_visit_without_a_name_is_refused() {
    let fake = Fake::open("Ahoy, {name}!");

    assert_eq!(fake.post("{}"), 400);
    assert_eq!(text(unsafe { bb_fake_field(fake.0) }), "name");
}

#[test]
fn it_says_when_the_database_is_away() {
    let fake = Fake::open("Ahoy, {name}!");

    assert_eq!(fake.post("{\"name\": \"Ada\"}"), 200); // uses up the row of open()
    unsafe { bb_fake_refuses(fake.0, STATEMENT, c!(""), null()) };
    assert_eq!(fake.post("{\"name\": \"Ada\"}"), 503);
}

#[test]
fn a_panic_is_an_answer() {
    let fake = Fake::open("no place");

    assert_eq!(fake.post("{\"name\": \"Ada\"}"), 500);
    assert!(text(unsafe { bb_fake_log(fake.0) }).contains("a handler panicked"));
}
