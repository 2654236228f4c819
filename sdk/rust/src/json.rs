//! JSON of the library jansson, which the host uses: values that a module creates, and values that it reads.
use crate::abi::json_t;
use crate::c_text;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

#[link(name = "jansson")]
extern "C" {
    fn json_object() -> *mut json_t;
    fn json_object_get(object: *const json_t, key: *const c_char) -> *mut json_t;
    fn json_object_set_new(object: *mut json_t, key: *const c_char, value: *mut json_t) -> c_int;
    fn json_array() -> *mut json_t;
    fn json_array_append_new(array: *mut json_t, value: *mut json_t) -> c_int;
    fn json_array_get(array: *const json_t, index: usize) -> *mut json_t;
    fn json_array_size(array: *const json_t) -> usize;
    fn json_stringn(text: *const c_char, length: usize) -> *mut json_t;
    fn json_string_value(string: *const json_t) -> *const c_char;
    fn json_string_length(string: *const json_t) -> usize;
    fn json_integer(number: i64) -> *mut json_t;
    fn json_integer_value(integer: *const json_t) -> i64;
    fn json_real(number: f64) -> *mut json_t;
    fn json_number_value(number: *const json_t) -> f64;
    fn json_true() -> *mut json_t;
    fn json_false() -> *mut json_t;
    fn json_null() -> *mut json_t;
    fn json_delete(json: *mut json_t);
}

/// The first members of json_t, which jansson.h declares for its own macros. The numbers are enum json_type.
#[repr(C)]
struct Head {
    kind: c_int,
    references: AtomicUsize,
}

const STRING: c_int = 2;
const INTEGER: c_int = 3;
const REAL: c_int = 4;
const TRUE: c_int = 5;
const FALSE: c_int = 6;

/// A value for a response or an event: `Json::object().set("id", id).set("text", text)`. If memory ran out for a part
/// of it, the host responds with 503.
pub struct Json(*mut json_t);

impl Json {
    /// Returns `{}`.
    pub fn object() -> Json {
        Json(unsafe { json_object() })
    }

    /// Returns `[]`.
    pub fn list() -> Json {
        Json(unsafe { json_array() })
    }

    /// Returns `null`.
    pub fn null() -> Json {
        Json(unsafe { json_null() })
    }

    /// Adds a member to an object.
    pub fn set(self, name: &str, value: impl Into<Json>) -> Json {
        let failed = unsafe { json_object_set_new(self.0, c_text(name).as_ptr(), value.into().into_raw()) } != 0;

        self.unless(failed)
    }

    /// Adds an item to a list.
    pub fn push(self, item: impl Into<Json>) -> Json {
        let failed = unsafe { json_array_append_new(self.0, item.into().into_raw()) } != 0;

        self.unless(failed)
    }

    fn unless(self, failed: bool) -> Json {
        if failed {
            Json(null_mut()) // drops self
        } else {
            self
        }
    }

    /// Passes the value to a function that takes it.
    pub(crate) fn into_raw(self) -> *mut json_t {
        let raw = self.0;

        std::mem::forget(self);
        raw
    }
}

impl Drop for Json {
    /// Does what json_decref() does, which jansson.h defines as an inline function.
    fn drop(&mut self) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: self has a reference, so the value exists. Constants such as null have the largest count.
        let head = unsafe { &*(self.0 as *const Head) };

        if head.references.load(Ordering::Relaxed) != usize::MAX
            && head.references.fetch_sub(1, Ordering::AcqRel) == 1
        {
            unsafe { json_delete(self.0) }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json(unsafe { json_stringn(text.as_ptr() as *const c_char, text.len()) })
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::from(text.as_str())
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json(unsafe { json_integer(number) })
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Json {
        Json(unsafe { json_real(number) })
    }
}

impl From<bool> for Json {
    fn from(yes: bool) -> Json {
        Json(unsafe { if yes { json_true() } else { json_false() } })
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or_else(Json::null, Into::into)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Json {
        items.into_iter().fold(Json::list(), Json::push)
    }
}

/// A value of the host, such as a request body or the payload of an event.
#[derive(Clone, Copy)]
pub struct JsonRef<'a>(*const json_t, PhantomData<&'a json_t>);

impl<'a> JsonRef<'a> {
    /// The value must live, and must not change, during 'a. NULL becomes None.
    pub(crate) unsafe fn new(raw: *const json_t) -> Option<JsonRef<'a>> {
        if raw.is_null() {
            None
        } else {
            Some(JsonRef(raw, PhantomData))
        }
    }

    fn kind(self) -> c_int {
        // SAFETY: the value lives, see new().
        unsafe { (*(self.0 as *const Head)).kind }
    }

    /// Returns a member of an object; None if it is absent or this is not an object.
    pub fn get(self, name: &str) -> Option<JsonRef<'a>> {
        unsafe { JsonRef::new(json_object_get(self.0, c_text(name).as_ptr())) }
    }

    /// Returns an item of a list.
    pub fn at(self, index: usize) -> Option<JsonRef<'a>> {
        unsafe { JsonRef::new(json_array_get(self.0, index)) }
    }

    /// Returns the items of a list; no items if this is not a list.
    pub fn items(self) -> impl Iterator<Item = JsonRef<'a>> {
        (0..unsafe { json_array_size(self.0) }).filter_map(move |index| self.at(index))
    }

    /// Returns a text; None if this is not a text.
    pub fn as_str(self) -> Option<&'a str> {
        if self.kind() != STRING {
            return None;
        }
        // SAFETY: jansson's texts are UTF-8, and live as long as the value.
        let bytes = unsafe {
            std::slice::from_raw_parts(json_string_value(self.0) as *const u8, json_string_length(self.0))
        };

        std::str::from_utf8(bytes).ok()
    }

    /// Returns a whole number; None if this is not a whole number.
    pub fn as_int(self) -> Option<i64> {
        (self.kind() == INTEGER).then(|| unsafe { json_integer_value(self.0) })
    }

    /// Returns a number; None if this is not a number.
    pub fn as_number(self) -> Option<f64> {
        matches!(self.kind(), INTEGER | REAL).then(|| unsafe { json_number_value(self.0) })
    }

    /// Returns true or false; None if this is neither.
    pub fn as_bool(self) -> Option<bool> {
        matches!(self.kind(), TRUE | FALSE).then(|| self.kind() == TRUE)
    }
}
