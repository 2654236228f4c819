//! A safe wrapper of requests: references and slices around the declarations of busbar.rs. It has only the
//! functions that visits_rust.rs needs; add those that your module needs.
use crate::busbar::*;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;

#[link(name = "jansson")]
extern "C" {
    fn json_object() -> *mut json_t;
    fn json_object_get(object: *const json_t, key: *const c_char) -> *mut json_t;
    fn json_object_set_new(object: *mut json_t, key: *const c_char, value: *mut json_t) -> c_int;
    fn json_string(text: *const c_char) -> *mut json_t;
    fn json_string_value(string: *const json_t) -> *const c_char;
    fn json_integer(number: i64) -> *mut json_t;
}

/// A request belongs to its fiber, so it is not Send. References from it live as long as the request.
pub struct Request {
    raw: *mut bb_request,
}

/// A member of a response.
pub enum Value<'a> {
    Text(&'a str),
    Int(i64),
}

/// Converts a string for C, and cuts it at the first zero byte.
fn text_of(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// The equivalent of bb_t().
pub fn bb_t(text: &CStr) -> bb_value {
    bb_value { kind: BB_V_TEXT, data: text.as_ptr() as *const c_void, length: 0, number: 0 }
}

/// The equivalent of bb_i().
pub fn bb_i(number: i64) -> bb_value {
    bb_value { kind: BB_V_INT, data: null(), length: 0, number }
}

impl Request {
    fn api(&self) -> &bb_api {
        unsafe { &*(*self.raw).api }
    }

    /// Returns None for NULL.
    fn borrowed(&self, text: *const c_char) -> Option<&CStr> {
        if text.is_null() {
            return None;
        }
        Some(unsafe { CStr::from_ptr(text) })
    }

    pub fn setting_text(&self, name: &CStr) -> &str {
        let text = unsafe { (self.api().setting_text)((*self.raw).host, name.as_ptr()) };

        self.borrowed(text).and_then(|text| text.to_str().ok()).unwrap_or("")
    }

    pub fn setting_int(&self, name: &CStr) -> i64 {
        unsafe { (self.api().setting_int)((*self.raw).host, name.as_ptr()) }
    }

    /// Returns the e-mail of the caller, or None on public routes.
    pub fn email(&self) -> Option<&CStr> {
        let principal = unsafe { (*self.raw).principal.as_ref() }?;

        self.borrowed(principal.email)
    }

    /// Returns a text of the request body, or None if it is missing.
    pub fn text(&self, name: &CStr) -> Option<&str> {
        let text = unsafe {
            json_string_value(json_object_get((self.api().body)(self.raw), name.as_ptr()))
        };

        self.borrowed(text)?.to_str().ok()
    }

    /// Returns the integer in the first cell of a statement's result, or None if the statement failed. Parks.
    pub fn query_int(&self, sql: &'static bb_sql, values: &[bb_value]) -> Option<i64> {
        let rows = unsafe { (self.api().query)(self.raw, sql, values.as_ptr(), values.len()) };

        if rows.is_null() {
            return None;
        }
        let cell = unsafe { (self.api().rows_text)(rows, 0, 0) };

        self.borrowed(cell)?.to_str().ok()?.parse().ok()
    }

    pub fn failed(&self) -> c_int {
        unsafe { (self.api().failed)(self.raw) }
    }

    pub fn fail(&self, status: c_int) -> c_int {
        unsafe { (self.api().fail_text)(self.raw, status, null()) }
    }

    pub fn log_error(&self, text: &str) {
        unsafe { (self.api().log_text)(self.raw, BB_ERROR, text_of(text).as_ptr()) }
    }

    /// Responds with an object of these members. May park.
    pub fn reply(&self, status: c_int, members: &[(&CStr, Value)]) -> c_int {
        unsafe {
            let object = json_object();

            for (name, value) in members {
                let json = match value {
                    Value::Text(text) => json_string(text_of(text).as_ptr()),
                    Value::Int(number) => json_integer(*number),
                };
                json_object_set_new(object, name.as_ptr(), json);
            }
            (self.api().reply)(self.raw, status, object)
        }
    }

    /// Runs a handler, and responds with 500 if it panics. Each function that the host calls must use this,
    /// because the host is C and no panic may reach it.
    pub fn serve(raw: *mut bb_request, handler: fn(&Request) -> c_int) -> c_int {
        let request = Request { raw };
        let panic = match catch_unwind(AssertUnwindSafe(|| handler(&request))) {
            Ok(status) => return status,
            Err(panic) => panic,
        };

        drop(panic);
        request.log_error("a handler panicked");
        request.fail(500)
    }
}
