//! Modules for busbar in safe Rust: tables that describe the module, and functions that get a `Request`.
//!
//! ```ignore
//! use busbar::*;
//!
//! fn hello(rq: &Request) -> Answer {
//!     rq.reply(200, Json::object().set("text", rq.setting_text("greeting")))
//! }
//!
//! const SETTINGS: &[Field] = &[Field::text(c!("greeting")).fallback(c!("hello"))];
//! const ROUTES: &[Route] = &[Route::new(c!("GET"), c!("/api/hello"), BB_ANY_ROLE, hello)];
//!
//! busbar::module!(Module::new(c!("hello"), c!("1.0.0")).settings(SETTINGS).routes(ROUTES));
//! ```
//!
//! The layer keeps a panic from reaching the host, and lets destructors run if memory runs out (`Request::host()`). It
//! has what most modules need. `abi` has the whole module API; using it needs `unsafe`.
//!
//! Rust's own allocations (`String`, `Vec`) end the process if memory runs out, and the supervisor starts it again.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]
#![allow(unused_unsafe)]

pub mod abi;
mod bulk;
mod json;
mod request;
mod sql;

pub use abi::{
    BB_ANYONE, BB_ANY_ROLE, BB_ROLE_ADMIN, BB_ROLE_API_USER, BB_ROLE_BUYER, BB_ROLE_DEVICE_OWNER,
    BB_ROLE_ORGANIZATION_ADMIN, BB_ROLE_USER,
};
pub use bulk::{BulkJob, BulkRow, BulkRows};
pub use json::{Json, JsonRef};
pub use request::{Answer, Error, Event, Level, Principal, Reply, Request};
pub use sql::{Audience, Row, Rows, Sql, Tx, Unit, Value};

use abi::*;
use std::ffi::CString;
use std::mem::size_of;
use std::os::raw::{c_char, c_int, c_uint};
use std::ptr::NonNull;

/// A text of a table, made by `c!("text")`.
#[derive(Clone, Copy)]
pub struct Text(pub(crate) *const c_char);

// SAFETY: it points to a constant.
unsafe impl Send for Text {}
unsafe impl Sync for Text {}

/// Checks the text of c!() when the module is compiled.
#[doc(hidden)]
pub const fn text(ends_in_zero: &'static str) -> Text {
    let bytes = ends_in_zero.as_bytes();
    let mut at = 0;

    while bytes[at] != 0 {
        at += 1;
    }
    assert!(at + 1 == bytes.len(), "the text of a table contains a zero byte");
    Text(bytes.as_ptr() as *const c_char)
}

/// A text of a table, or of a statement.
#[macro_export]
macro_rules! c {
    ($text:expr) => {
        $crate::text(concat!($text, "\0"))
    };
}

/// Converts a text for C, and cuts it at the first zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// Returns the function that was passed to a table. It has no data, and F is Copy, so a copy of it can be made anywhere.
pub(crate) fn instance<F: Copy>() -> F {
    assert!(size_of::<F>() == 0);
    // SAFETY: reads no bytes. A value of F exists, because the tables take one.
    unsafe { NonNull::<F>::dangling().as_ptr().read() }
}

/// Tables store functions by their type, so they must be functions, or closures that capture nothing.
pub(crate) const fn only_a_function<F: Copy>() {
    assert!(size_of::<F>() == 0, "a table needs a function, or a closure that captures nothing");
}

/// A field of a body, a query, a path, a response, an event or the settings.
#[repr(transparent)]
pub struct Field(bb_field);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for Field {}

macro_rules! field_types {
    ($($(#[$doc:meta])* $name:ident = $kind:ident,)*) => { $(
        $(#[$doc])*
        pub const fn $name(name: Text) -> Field {
            Field::new(name, $kind)
        }
    )* };
}

impl Field {
    const fn new(name: Text, kind: c_uint) -> Field {
        Field(bb_field { name: name.0, kind, ..bb_field::ZERO })
    }

    field_types! {
        /// A text; min and max count characters.
        text = BB_TEXT,
        /// An e-mail address.
        email = BB_EMAIL,
        /// A UUID.
        uuid = BB_UUID,
        /// A whole number.
        int = BB_INT,
        /// A number.
        number = BB_NUMBER,
        /// true or false.
        flag = BB_BOOL,
        /// A date and time.
        time = BB_TIME,
        /// Any JSON value.
        any = BB_ANY,
    }

    /// An object with these members.
    pub const fn object(name: Text, members: &'static [Field]) -> Field {
        let mut field = Field::new(name, BB_OBJECT);

        field.0.fields = table(members);
        field
    }

    /// A list whose items have this one row. With the name ".", the whole body.
    pub const fn list(name: Text, item: &'static [Field]) -> Field {
        let mut field = Field::new(name, BB_LIST);

        field.0.fields = table(item);
        field
    }

    const fn with(mut self, flag: c_uint) -> Field {
        self.0.flags |= flag;
        self
    }

    /// The field must not be absent.
    pub const fn required(self) -> Field {
        self.with(BB_REQUIRED)
    }

    /// null is valid, and counts as absent.
    pub const fn nullable(self) -> Field {
        self.with(BB_NULLABLE)
    }

    /// The text must contain something other than white space.
    pub const fn not_blank(self) -> Field {
        self.with(BB_NOT_BLANK)
    }

    /// A free text, which keeps its white space.
    pub const fn verbatim(self) -> Field {
        self.with(BB_VERBATIM)
    }

    /// A secret, which is never logged.
    pub const fn secret(self) -> Field {
        self.with(BB_SECRET)
    }

    /// A name of a person or thing.
    pub const fn name(self) -> Field {
        self.with(BB_NAME)
    }

    /// In the payload of an event: what the event is about. Webhooks with `ordering` get its events in order.
    pub const fn key(self) -> Field {
        self.with(BB_KEY)
    }

    /// The bounds of a number, or of the length of a text or list.
    pub const fn range(mut self, min: i64, max: i64) -> Field {
        self.0.min = min;
        self.0.max = max;
        self
    }

    /// The value if the field is absent.
    pub const fn fallback(mut self, value: Text) -> Field {
        self.0.fallback = value.0;
        self
    }

    /// A sentence for the reference.
    pub const fn help(mut self, text: Text) -> Field {
        self.0.help = text.0;
        self
    }

    /// An example for the reference.
    pub const fn example(mut self, text: Text) -> Field {
        self.0.example = text.0;
        self
    }
}

extern "C" fn handle<F: Fn(&Request) -> Answer + Copy>(raw: *mut bb_request) -> c_int {
    // SAFETY: the host passes a request that lives until this returns.
    unsafe { request::serve(raw, 500, |rq| request::status_of(rq, instance::<F>()(rq))) }
}

/// A route: method, path, roles and handler.
#[repr(transparent)]
pub struct Route(bb_route);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for Route {}

impl Route {
    /// The roles are BB_ANY_ROLE, BB_ANYONE, or several BB_ROLE_… combined by `|`.
    pub const fn new<F>(method: Text, path: Text, roles: c_uint, _handler: F) -> Route
    where
        F: Fn(&Request) -> Answer + Copy + 'static,
    {
        only_a_function::<F>();
        Route(bb_route { method: method.0, path: path.0, roles, handler: Some(handle::<F>), ..bb_route::ZERO })
    }

    /// A row for each segment of the path that begins with a colon.
    pub const fn segments(mut self, fields: &'static [Field]) -> Route {
        self.0.segments = table(fields);
        self
    }

    /// The parameters of the query.
    pub const fn query(mut self, fields: &'static [Field]) -> Route {
        self.0.query = table(fields);
        self
    }

    /// The members of the body.
    pub const fn body(mut self, fields: &'static [Field]) -> Route {
        self.0.body = table(fields);
        self
    }

    /// Describes the response in the reference.
    pub const fn reply(mut self, fields: &'static [Field]) -> Route {
        self.0.reply = table(fields);
        self
    }

    /// The route accepts Idempotency-Key, and its success has this status.
    pub const fn creates(mut self, status: c_int) -> Route {
        self.0.flags |= BB_CREATES;
        self.0.success = status;
        self
    }

    /// Further statuses in the reference, with a zero at the end.
    pub const fn errors(mut self, statuses: &'static [c_int]) -> Route {
        assert!(!statuses.is_empty() && statuses[statuses.len() - 1] == 0, "the last status must be 0");
        self.0.errors = statuses.as_ptr();
        self
    }

    /// A sentence for the reference.
    pub const fn help(mut self, text: Text) -> Route {
        self.0.help = text.0;
        self
    }
}

/// An event that the module raises.
#[repr(transparent)]
pub struct EventType(bb_event_descriptor);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for EventType {}

impl EventType {
    /// The name has the form "thing.happened".
    pub const fn new(name: Text, payload: &'static [Field], help: Text) -> EventType {
        EventType(bb_event_descriptor { name: name.0, version: 1, payload: table(payload), help: help.0 })
    }
}

extern "C" fn hear<F: Fn(&Request, &Event) -> Result<(), Error> + Copy>(raw: *mut bb_request, event: *const bb_event) {
    // SAFETY: the host passes a request and an event that live until this returns.
    unsafe {
        let event = &*event;

        request::serve(raw, 0, |rq| request::result_of(rq, instance::<F>()(rq, &Event::new(event))));
    }
}

/// A function that the host calls for events of any module.
#[repr(transparent)]
pub struct Hook(bb_hook);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for Hook {}

impl Hook {
    /// Runs after the commit of each event with this name.
    pub const fn committed<F>(event: Text, _hook: F) -> Hook
    where
        F: Fn(&Request, &Event) -> Result<(), Error> + Copy + 'static,
    {
        only_a_function::<F>();
        Hook(bb_hook { event: event.0, kind: BB_COMMITTED, within: None, committed: Some(hear::<F>) })
    }
}

extern "C" fn work<F: Fn(&Request) -> Result<(), Error> + Copy>(raw: *mut bb_request) {
    // SAFETY: the host passes a request that lives until this returns.
    unsafe {
        request::serve(raw, 0, |rq| request::result_of(rq, instance::<F>()(rq)));
    }
}

/// A function that the host calls periodically.
#[repr(transparent)]
pub struct Job(bb_job);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for Job {}

impl Job {
    /// Runs every `every_s` seconds on one host of the cluster.
    pub const fn once<F>(name: Text, every_s: c_uint, _job: F) -> Job
    where
        F: Fn(&Request) -> Result<(), Error> + Copy + 'static,
    {
        only_a_function::<F>();
        Job(bb_job { name: name.0, every_s, flags: BB_ONCE, run: Some(work::<F>) })
    }

    /// Runs on every host.
    pub const fn on_every_host(mut self) -> Job {
        self.0.flags = 0;
        self
    }
}

/// A service for other modules.
#[repr(transparent)]
pub struct Service(bb_service_descriptor);

// SAFETY: the pointers in a row point to constants.
unsafe impl Sync for Service {}

impl Service {
    /// A type of bulk uploads. The name is "bulk rows:TYPE"; another name does not compile.
    pub const fn bulk(name: Text, rows: &'static BulkRows) -> Service {
        const PREFIX: &[u8] = b"bulk rows:";
        let mut at = 0;
        while at < PREFIX.len() {
            // SAFETY: a Text ends with a NUL, which differs from every byte of the prefix.
            assert!(unsafe { *name.0.add(at) } as u8 == PREFIX[at], "the name of bulk rows begins with \"bulk rows:\"");
            at += 1;
        }
        Service(bb_service_descriptor {
            name: name.0,
            version: 1,
            interface: rows as *const BulkRows as *const std::os::raw::c_void,
        })
    }
}

/// The descriptor of a module, for module!().
#[repr(transparent)]
pub struct Module(bb_module);

// SAFETY: the pointers in it point to constants.
unsafe impl Sync for Module {}

impl Module {
    /// The module's section in the settings file has the same name.
    pub const fn new(name: Text, version: Text) -> Module {
        Module(bb_module::new(name.0, version.0))
    }

    /// One or two sentences about its purpose.
    pub const fn help(mut self, text: Text) -> Module {
        self.0.help = text.0;
        self
    }

    /// SQL in numbered steps: "-- step 1: title".
    pub const fn schema(mut self, sql: Text) -> Module {
        self.0.schema = sql.0;
        self
    }

    /// The settings.
    pub const fn settings(mut self, rows: &'static [Field]) -> Module {
        self.0.settings = table(rows);
        self
    }

    /// The routes.
    pub const fn routes(mut self, rows: &'static [Route]) -> Module {
        self.0.routes = table(rows);
        self
    }

    /// The events that the module raises.
    pub const fn events(mut self, rows: &'static [EventType]) -> Module {
        self.0.events = table(rows);
        self
    }

    /// The functions that the host calls for events.
    pub const fn hooks(mut self, rows: &'static [Hook]) -> Module {
        self.0.hooks = table(rows);
        self
    }

    /// The jobs.
    pub const fn jobs(mut self, rows: &'static [Job]) -> Module {
        self.0.jobs = table(rows);
        self
    }

    /// The services.
    pub const fn services(mut self, rows: &'static [Service]) -> Module {
        self.0.services = table(rows);
        self
    }

    /// A descriptor with tables that this layer does not have.
    ///
    /// # Safety
    ///
    /// All pointers in it must be valid as the headers of busbar describe.
    pub const unsafe fn from_raw(module: bb_module) -> Module {
        Module(module)
    }
}

/// Exports the descriptor of the module.
#[macro_export]
macro_rules! module {
    ($module:expr) => {
        #[no_mangle]
        #[allow(non_upper_case_globals)]
        pub static busbar_module: $crate::Module = $module;
    };
}
