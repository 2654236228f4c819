//! The module API of <busbar/*.h>, ABI 1.0, in Rust: structs, constants and the table of the host's functions. The
//! headers describe them. `./test install rust` compares the sizes and the order of the members with the headers.
//! Modules use the safe layer in lib.rs; this file is for functions that the layer does not have.
#![allow(non_camel_case_types, missing_docs)]

use std::mem::{size_of, transmute};
use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const BB_ABI_MAJOR: c_uint = 1;
pub const BB_ABI_MINOR: c_uint = 0;
pub const BB_MODULE_SEALS: c_uint = 1;

/// Structs that only the host uses.
macro_rules! opaque { ($($name:ident)*) => { $(#[repr(C)] pub struct $name { _inside: [u8; 0] })* } }
opaque! { json_t bb_rows bb_tx bb_completion bb_stream }

/// Rows of tables: constants with pointers, which threads share. Missing members are zero:
/// `bb_route { method, ..bb_route::ZERO }`.
macro_rules! rows {
    ($($name:ident)*) => { $(
        unsafe impl Sync for $name {}
        impl $name {
            pub const ZERO: $name =
                unsafe { transmute([0usize; size_of::<$name>() / size_of::<usize>()]) };
        }
    )* };
}
rows! { bb_field bb_route bb_part bb_event_descriptor bb_hook bb_service_descriptor bb_need bb_channel bb_job
        bb_pool bb_worker bb_command bb_metric bb_sql bb_module bb_bulk_rows }

// abi.h

#[repr(C)]
#[derive(Clone, Copy)]
pub struct bb_table {
    pub rows: *const c_void,
    pub count: usize,
    pub stride: usize,
}

/// BB_TABLE()
pub const fn table<T>(rows: &'static [T]) -> bb_table {
    bb_table { rows: rows.as_ptr() as *const c_void, count: rows.len(), stride: size_of::<T>() }
}

// field.h

pub const BB_TEXT: c_uint = 1;
pub const BB_EMAIL: c_uint = 2;
pub const BB_UUID: c_uint = 3;
pub const BB_INT: c_uint = 4;
pub const BB_NUMBER: c_uint = 5;
pub const BB_BOOL: c_uint = 6;
pub const BB_TIME: c_uint = 7;
pub const BB_CHOICE: c_uint = 8;
pub const BB_OBJECT: c_uint = 9;
pub const BB_LIST: c_uint = 10;
pub const BB_ANY: c_uint = 11;

pub const BB_REQUIRED: c_uint = 1;
pub const BB_NULLABLE: c_uint = 2;
pub const BB_NOT_BLANK: c_uint = 4;
pub const BB_SECRET: c_uint = 8;
pub const BB_RELOADABLE: c_uint = 16;
pub const BB_RESTART: c_uint = 32;
pub const BB_AS_SENT: c_uint = 64;
pub const BB_VERBATIM: c_uint = 128;
pub const BB_NAME: c_uint = 256;
pub const BB_KEY: c_uint = 131072;
pub const BB_EMPTY: c_uint = 512;
pub const BB_NFKC: c_uint = 1024;

/// BB_BIND(); size 0: not bound.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bb_bind {
    pub offset: u32,
    pub size: u32,
}

#[repr(C)]
pub struct bb_field {
    pub name: *const c_char,
    pub kind: c_uint, // `type` in C
    pub flags: c_uint,
    pub min: i64,
    pub max: i64,
    pub choices: *const *const c_char,
    pub fields: bb_table,
    pub alias: *const c_char,
    pub fallback: *const c_char,
    pub help: *const c_char,
    pub example: *const c_char,
    pub bind: bb_bind,
}

// metric.h

pub const BB_COUNTER: c_uint = 1;
pub const BB_GAUGE: c_uint = 2;

#[repr(C)]
pub struct bb_metric {
    pub name: *const c_char,
    pub kind: c_uint,
    pub help: *const c_char,
    pub label: *const c_char,
    pub values: *const *const c_char,
    pub read: Option<extern "C" fn(*mut c_void, usize) -> f64>,
}

// principal.h

pub const BB_ROLE_ADMIN: c_uint = 1;
pub const BB_ROLE_ORGANIZATION_ADMIN: c_uint = 2;
pub const BB_ROLE_DEVICE_OWNER: c_uint = 4;
pub const BB_ROLE_BUYER: c_uint = 8;
pub const BB_ROLE_USER: c_uint = 16;
pub const BB_ROLE_API_USER: c_uint = 32;
pub const BB_ANY_ROLE: c_uint = 63;
pub const BB_ANYONE: c_uint = 1 << 30;

#[repr(C)]
pub struct bb_principal {
    pub size: usize,
    pub account: i64,
    pub email: *const c_char,
    pub role: c_uint,
    pub client: bool,
    pub organization: i64,
    pub organizations: *const i64,
    pub organization_count: usize,
    pub session: *const c_char,
    pub approved_ms: i64,
}

// module.h

pub const BB_CREATES: c_uint = 1;
pub const BB_NO_BODY: c_uint = 2;
pub const BB_FORM_TOO: c_uint = 4;
pub const BB_OAUTH_ERRORS: c_uint = 8;
pub const BB_INSIDE: c_uint = 16;
pub const BB_KEEP_OTHERS: c_uint = 32;
pub const BB_AUDITED: c_uint = 128;
pub const BB_VERSIONED: c_uint = 256;
pub const BB_PART_FIELDS: c_uint = 1;
pub const BB_PART_FILES: c_uint = 2;
pub const BB_WITHIN: c_uint = 1;
pub const BB_COMMITTED: c_uint = 2;
pub const BB_ONCE: c_uint = 1;

#[repr(C)]
pub struct bb_part {
    pub name: *const c_char,
    pub kind: c_uint,
    pub flags: c_uint,
    pub count_max: c_uint,
    pub bytes_max: usize,
    pub help: *const c_char,
}

#[repr(C)]
pub struct bb_route {
    pub method: *const c_char,
    pub path: *const c_char,
    pub roles: c_uint,
    pub handler: Option<extern "C" fn(*mut bb_request) -> c_int>,
    pub segments: bb_table,
    pub query: bb_table,
    pub body: bb_table,
    pub reply: bb_table,
    pub body_max: usize,
    pub deadline_ms: c_uint,
    pub flags: c_uint,
    pub success: c_int,
    pub help: *const c_char,
    pub values_max: usize,
    pub parts: bb_table,
    pub files_max: usize,
    pub files_in: *const c_char,
    pub files_pool: *const c_char,
    pub files_failed: Option<extern "C" fn(*mut bb_host)>,
    pub reply_type: *const c_char,
    pub errors: *const c_int,
}

#[repr(C)]
pub struct bb_event_descriptor {
    pub name: *const c_char,
    pub version: c_uint,
    pub payload: bb_table,
    pub help: *const c_char,
}

#[repr(C)]
pub struct bb_hook {
    pub event: *const c_char,
    pub kind: c_uint,
    pub within: Option<
        extern "C" fn(*mut bb_request, *mut bb_tx, *const bb_event, *mut c_void) -> c_int,
    >,
    pub committed: Option<extern "C" fn(*mut bb_request, *const bb_event)>,
}

#[repr(C)]
pub struct bb_service_descriptor {
    pub name: *const c_char,
    pub version: c_uint,
    pub interface: *const c_void,
}

#[repr(C)]
pub struct bb_need {
    pub service: *const c_char,
    pub version: c_uint,
}

#[repr(C)]
pub struct bb_channel {
    pub name: *const c_char,
    pub heard: Option<extern "C" fn(*mut c_void, *const c_char)>,
}

#[repr(C)]
pub struct bb_job {
    pub name: *const c_char,
    pub every_s: c_uint,
    pub flags: c_uint,
    pub run: Option<extern "C" fn(*mut bb_request)>,
}

#[repr(C)]
pub struct bb_pool {
    pub name: *const c_char,
    pub threads: c_uint,
    pub queue: c_uint,
    pub nice: c_int,
}

#[repr(C)]
pub struct bb_worker {
    pub name: *const c_char,
    pub run: Option<extern "C" fn(*mut bb_worker_context)>,
    pub nice: c_int,
}

#[repr(C)]
pub struct bb_command {
    pub name: *const c_char,
    pub options: bb_table,
    pub run: Option<extern "C" fn(*mut bb_request) -> c_int>,
    pub help: *const c_char,
    pub flags: c_uint,
}

#[repr(C)]
pub struct bb_module {
    pub size: usize,
    pub abi_major: c_uint,
    pub abi_minor: c_uint,
    pub name: *const c_char,
    pub version: *const c_char,
    pub schema: *const c_char,
    pub settings: bb_table,
    pub routes: bb_table,
    pub events: bb_table,
    pub hooks: bb_table,
    pub services: bb_table,
    pub needs: bb_table,
    pub channels: bb_table,
    pub jobs: bb_table,
    pub pools: bb_table,
    pub workers: bb_table,
    pub commands: bb_table,
    pub open: Option<extern "C" fn(*mut bb_host, *mut *mut c_void) -> c_int>,
    pub start: Option<extern "C" fn(*mut bb_host, *mut c_void)>,
    pub quiesce: Option<extern "C" fn(*mut bb_host, *mut c_void)>,
    pub close: Option<extern "C" fn(*mut bb_host, *mut c_void)>,
    pub metrics: bb_table,
    pub wants: bb_table,
    pub flags: c_uint,
    pub help: *const c_char,
    pub settings_size: usize,
}

impl bb_module {
    /// BB_MODULE_HEAD()
    pub const fn new(name: *const c_char, version: *const c_char) -> bb_module {
        bb_module {
            size: size_of::<bb_module>(),
            abi_major: BB_ABI_MAJOR,
            abi_minor: BB_ABI_MINOR,
            name,
            version,
            ..bb_module::ZERO
        }
    }
}

// host.h, request.h, event.h, stream.h, sql.h

#[repr(C)]
pub struct bb_host {
    pub size: usize,
    pub api: *const bb_api,
    pub module: *const bb_module,
    pub state: *mut c_void,
}

#[repr(C)]
pub struct bb_service {
    pub interface: *const c_void,
    pub state: *mut c_void,
}

#[repr(C)]
pub struct bb_given {
    pub size: usize,
    pub name: *const c_char,
    pub version: c_uint,
    pub interface: *const c_void,
    pub host: *mut bb_host,
}

#[repr(C)]
pub struct bb_worker_context {
    pub size: usize,
    pub host: *mut bb_host,
    pub wake_fd: c_int,
}

#[repr(C)]
pub struct bb_file {
    pub size: usize,
    pub part: *const c_char,
    pub name: *const c_char,
    pub path: *const c_char,
    pub sha256: *const c_char,
    pub length: i64,
}

pub const BB_REDIS_NIL: c_uint = 0;
pub const BB_REDIS_INT: c_uint = 1;
pub const BB_REDIS_TEXT: c_uint = 2;
pub const BB_REDIS_LIST: c_uint = 3;
pub const BB_REDIS_ERROR: c_uint = 4;

#[repr(C)]
pub struct bb_redis_reply {
    pub kind: c_uint, // `type` in C
    pub integer: i64,
    pub text: *const c_char,
    pub length: usize,
    pub items: *const bb_redis_reply,
    pub count: usize,
}

#[repr(C)]
pub struct bb_request {
    pub size: usize,
    pub api: *const bb_api,
    pub host: *mut bb_host,
    pub state: *mut c_void,
    pub principal: *const bb_principal,
}

#[repr(C)]
pub struct bb_audience {
    pub size: usize,
    pub organization: i64,
    pub emails: *const *const c_char,
}

#[repr(C)]
pub struct bb_event {
    pub size: usize,
    pub name: *const c_char,
    pub id: *const c_char,
    pub wall_ms: i64,
    pub payload: *const json_t,
    pub audience: *const bb_audience,
}

/// Its bytes follow in memory.
#[repr(C)]
pub struct bb_chunk {
    pub length: usize,
}

#[repr(C)]
pub struct bb_stream_options {
    pub size: usize,
    pub kind: *const c_char, // `type` in C
    pub limit: usize,
    pub goodbye: *const c_char,
    pub closed: Option<extern "C" fn(*mut bb_stream, *mut c_void)>,
    pub arg: *mut c_void,
    pub whole: bool,
    pub heartbeat: *const c_char,
    pub heartbeat_ms: i64,
    pub full: Option<extern "C" fn(*mut bb_stream, *mut c_void)>,
}

pub const BB_SQL_WRITE: c_uint = 1;
pub const BB_SQL_LONG: c_uint = 2;
pub const BB_SQL_REPLICA: c_uint = 8;

#[repr(C)]
pub struct bb_sql {
    pub text: *const c_char,
    pub flags: c_uint,
}

pub const BB_V_NULL: c_uint = 0;
pub const BB_V_TEXT: c_uint = 1;
pub const BB_V_INT: c_uint = 2;
pub const BB_V_BYTES: c_uint = 3;
pub const BB_V_INTS: c_uint = 4;

#[repr(C)]
pub struct bb_value {
    pub kind: c_uint,
    pub data: *const c_void,
    pub length: usize,
    pub number: i64,
}

// api.h

pub const BB_DATABASE: c_uint = 1;
pub const BB_REDIS: c_uint = 2;
pub const BB_DEBUG: c_uint = 0;
pub const BB_INFO: c_uint = 1;
pub const BB_WARN: c_uint = 2;
pub const BB_ERROR: c_uint = 3;

/// A function with a va_list, which Rust cannot create. Use the function whose name ends in _text.
pub type not_from_rust = *const c_void;

#[repr(C)]
pub struct bb_api {
    pub size: usize,
    pub minor: c_uint,
    pub host_alloc: unsafe extern "C" fn(*mut bb_host, usize) -> *mut c_void,
    pub setting_text: unsafe extern "C" fn(*mut bb_host, *const c_char) -> *const c_char,
    pub setting_int: unsafe extern "C" fn(*mut bb_host, *const c_char) -> i64,
    pub setting_number: unsafe extern "C" fn(*mut bb_host, *const c_char) -> f64,
    pub setting_json: unsafe extern "C" fn(*mut bb_host, *const c_char) -> *mut json_t,
    pub settings: unsafe extern "C" fn(*mut bb_host) -> *const c_void,
    pub open_fail: not_from_rust,
    pub open_fail_text: unsafe extern "C" fn(*mut bb_host, *const c_char) -> c_int,
    pub service: unsafe extern "C" fn(*mut bb_host, *const c_char) -> bb_service,
    pub service_at: unsafe extern "C" fn(*mut bb_host, *const c_char, usize,
        *mut bb_given) -> bool,
    pub module_at: unsafe extern "C" fn(*mut bb_host, usize) -> *const bb_module,
    pub event_names: unsafe extern "C" fn(*mut bb_host, *mut *const *const c_char) -> usize,
    pub host_log: not_from_rust,
    pub host_log_text: unsafe extern "C" fn(*mut bb_host, c_uint, *const c_char),
    pub signals_fresh_ms: unsafe extern "C" fn(*mut bb_host) -> i64,
    pub now_ms: unsafe extern "C" fn() -> i64,
    pub wall_ms: unsafe extern "C" fn() -> i64,
    pub random_bytes: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    pub seal: unsafe extern "C" fn(*mut bb_host, *const c_void, usize, *const c_char,
        *mut *mut u8, *mut usize) -> c_int,
    pub unseal: unsafe extern "C" fn(*mut bb_host, *const c_void, usize, *const c_char,
        *mut *mut u8, *mut usize) -> c_int,
    pub metric_add: unsafe extern "C" fn(*mut bb_host, usize, usize, u64),
    pub superseded: unsafe extern "C" fn(*mut bb_host) -> bool,
    pub run: unsafe extern "C" fn(*mut bb_host, Option<extern "C" fn(*mut bb_request,
        *mut c_void)>, *mut c_void) -> c_int,
    pub run_then: unsafe extern "C" fn(*mut bb_host, Option<extern "C" fn(*mut bb_request,
        *mut c_void)>, Option<extern "C" fn(*mut c_void, bool)>, *mut c_void) -> c_int,
    pub wake: unsafe extern "C" fn(*mut bb_host, *const c_char),
    pub stopping: unsafe extern "C" fn(*mut bb_worker_context) -> bool,
    pub leave_ms: unsafe extern "C" fn(*mut bb_worker_context) -> i64,
    pub drained: unsafe extern "C" fn(*mut bb_worker_context) -> bool,
    pub alloc: unsafe extern "C" fn(*mut bb_request, usize) -> *mut c_void,
    pub vformat: not_from_rust,
    pub defer: unsafe extern "C" fn(*mut bb_request, Option<extern "C" fn(*mut c_void)>,
        *mut c_void),
    pub scratch: unsafe extern "C" fn(*mut bb_request, Option<extern "C" fn(*mut bb_request,
        *mut c_void) -> c_int>, *mut c_void) -> c_int,
    pub segment: unsafe extern "C" fn(*mut bb_request, *const c_char) -> *const c_char,
    pub segment_int: unsafe extern "C" fn(*mut bb_request, *const c_char) -> i64,
    pub arg: unsafe extern "C" fn(*mut bb_request, *const c_char) -> *const c_char,
    pub arg_int: unsafe extern "C" fn(*mut bb_request, *const c_char, i64) -> i64,
    pub body: unsafe extern "C" fn(*mut bb_request) -> *mut json_t,
    pub file: unsafe extern "C" fn(*mut bb_request, usize) -> *const bb_file,
    pub check: unsafe extern "C" fn(*mut bb_request, *const bb_table, *mut json_t,
        *mut json_t) -> *mut json_t,
    pub header: unsafe extern "C" fn(*mut bb_request, *const c_char) -> *const c_char,
    pub client_address: unsafe extern "C" fn(*mut bb_request) -> *const c_char,
    pub probe: unsafe extern "C" fn(*mut bb_request, c_uint, *mut i64) -> c_int,
    pub standstill: unsafe extern "C" fn(*mut bb_request) -> *const c_char,
    pub pause_reason: unsafe extern "C" fn(*mut bb_request) -> *const c_char,
    pub answered: unsafe extern "C" fn(*mut bb_request) -> u64,
    pub metrics: unsafe extern "C" fn(*mut bb_request, *mut usize) -> *mut c_char,
    pub new_uuid: unsafe extern "C" fn(*mut bb_request) -> *mut c_char,
    pub time_text: unsafe extern "C" fn(*mut bb_request, i64) -> *mut c_char,
    pub json: unsafe extern "C" fn(*mut bb_request, *const json_t, *mut usize) -> *mut c_char,
    pub json_read: unsafe extern "C" fn(*mut bb_request, *const c_char) -> *mut json_t,
    pub log: not_from_rust,
    pub log_text: unsafe extern "C" fn(*mut bb_request, c_uint, *const c_char),
    pub vprint: not_from_rust,
    pub print_text: unsafe extern "C" fn(*mut bb_request, *const c_char),
    pub again: unsafe extern "C" fn(*mut bb_request),
    pub call_as: unsafe extern "C" fn(*mut bb_request, *mut bb_host,
        Option<extern "C" fn(*mut bb_request, *mut c_void) -> c_int>, *mut c_void) -> c_int,
    pub reply: unsafe extern "C" fn(*mut bb_request, c_int, *mut json_t) -> c_int,
    pub reply_bytes: unsafe extern "C" fn(*mut bb_request, c_int, *const c_char, *const c_void,
        usize) -> c_int,
    pub reply_file: unsafe extern "C" fn(*mut bb_request, c_int, i64) -> c_int,
    pub vfail: not_from_rust,
    pub fail_text: unsafe extern "C" fn(*mut bb_request, c_int, *const c_char) -> c_int,
    pub vfail_listed: not_from_rust,
    pub fail_listed_text: unsafe extern "C" fn(*mut bb_request, c_int, *mut json_t,
        *const c_char) -> c_int,
    pub vinvalid: not_from_rust,
    pub invalid_text: unsafe extern "C" fn(*mut bb_request, *const c_char, *const c_char) -> c_int,
    pub refuse: unsafe extern "C" fn(*mut bb_request, *mut json_t) -> c_int,
    pub failed: unsafe extern "C" fn(*mut bb_request) -> c_int,
    pub reply_header: unsafe extern "C" fn(*mut bb_request, *const c_char, *const c_char) -> c_int,
    pub reply_next: unsafe extern "C" fn(*mut bb_request, *const c_char) -> c_int,
    pub vwarn: not_from_rust,
    pub warn_text: unsafe extern "C" fn(*mut bb_request, *const c_char),
    pub offload: unsafe extern "C" fn(*mut bb_request, *const c_char,
        Option<extern "C" fn(*mut c_void)>, *mut c_void) -> c_int,
    pub offload_for: unsafe extern "C" fn(*mut bb_request, *const c_char, u64,
        Option<extern "C" fn(*mut c_void)>, *mut c_void) -> c_int,
    pub redis: unsafe extern "C" fn(*mut bb_request, c_int, *const *const c_char,
        *const usize) -> *const bb_redis_reply,
    pub completion: unsafe extern "C" fn(*mut bb_request) -> *mut bb_completion,
    pub completion_wait: unsafe extern "C" fn(*mut bb_request, *mut bb_completion, i64) -> c_int,
    pub completion_signal: unsafe extern "C" fn(*mut bb_completion),
    pub query: unsafe extern "C" fn(*mut bb_request, *const bb_sql, *const bb_value,
        usize) -> *mut bb_rows,
    pub rows_count: unsafe extern "C" fn(*const bb_rows) -> usize,
    pub rows_affected: unsafe extern "C" fn(*const bb_rows) -> usize,
    pub rows_text: unsafe extern "C" fn(*const bb_rows, usize, usize) -> *const c_char,
    pub rows_length: unsafe extern "C" fn(*const bb_rows, usize, usize) -> usize,
    pub sqlstate: unsafe extern "C" fn(*mut bb_request) -> *const c_char,
    pub constraint: unsafe extern "C" fn(*mut bb_request) -> *const c_char,
    pub unit: unsafe extern "C" fn(*mut bb_request, u64) -> *mut bb_tx,
    pub add: unsafe extern "C" fn(*mut bb_tx, *const bb_sql, *const bb_value, usize) -> c_int,
    pub commit: unsafe extern "C" fn(*mut bb_request, *mut bb_tx, c_int, *mut json_t) -> c_int,
    pub unit_rows: unsafe extern "C" fn(*mut bb_tx, c_int) -> *mut bb_rows,
    pub transaction: unsafe extern "C" fn(*mut bb_request, Option<extern "C" fn(*mut bb_request,
        *mut bb_tx, *mut c_void) -> c_int>, *mut c_void) -> c_int,
    pub tx_query: unsafe extern "C" fn(*mut bb_tx, *const bb_sql, *const bb_value,
        usize) -> *mut bb_rows,
    pub next_id: unsafe extern "C" fn(*mut bb_request, *const c_char) -> i64,
    pub after: unsafe extern "C" fn(*mut bb_tx, Option<extern "C" fn(*mut bb_request, *mut bb_tx,
        *mut c_void)>, *mut c_void),
    pub before: unsafe extern "C" fn(*mut bb_tx,
        Option<extern "C" fn(*mut bb_request, *mut bb_tx, *mut c_void) -> c_int>, usize)
        -> *mut c_void,
    pub emit: unsafe extern "C" fn(*mut bb_tx, *const c_char, *mut json_t,
        *const bb_audience) -> c_int,
    pub stream_open: unsafe extern "C" fn(*mut bb_request, *const bb_stream_options,
        *mut *mut bb_stream) -> c_int,
    pub stream_join: unsafe extern "C" fn(*mut bb_host, *mut bb_stream, *const c_char) -> c_int,
    pub stream_publish: unsafe extern "C" fn(*mut bb_host, *const c_char, *mut bb_chunk) -> usize,
    pub stream_send: unsafe extern "C" fn(*mut bb_stream, *mut bb_chunk) -> c_int,
    pub stream_waiting: unsafe extern "C" fn(*mut bb_stream) -> usize,
    pub stream_end: unsafe extern "C" fn(*mut bb_stream),
    pub stream_cut: unsafe extern "C" fn(*mut bb_stream),
    pub chunk_new: unsafe extern "C" fn(usize) -> *mut bb_chunk,
    pub chunk_release: unsafe extern "C" fn(*mut bb_chunk),
    pub stream_publish_to: unsafe extern "C" fn(*mut bb_host, *const *const c_char, usize,
        *mut bb_chunk) -> usize,
    pub probe_problem: unsafe extern "C" fn(*mut bb_request, c_uint) -> *const c_char,
    pub guard: unsafe extern "C" fn(*mut bb_request, Option<unsafe extern "C" fn(*mut bb_request,
        *mut c_void)>, *mut c_void) -> c_int,
    pub end: unsafe extern "C" fn(*mut bb_request, c_int),
    pub set_code: unsafe extern "C" fn(*mut bb_request, *mut json_t),
    pub audit: unsafe extern "C" fn(*mut bb_request, *const c_char),
    pub if_match: unsafe extern "C" fn(*mut bb_request, *mut json_t) -> c_int,
    pub yield_now: unsafe extern "C" fn(*mut bb_request),
}

// bulk.h

#[repr(C)]
pub struct bb_bulk_job {
    pub size: usize,
    pub id: *const c_char,
    pub organization: i64,
    pub account: i64,
    pub email: *const c_char,
    pub role: c_uint,
    pub file: *const c_char,
}

#[repr(C)]
pub struct bb_bulk_problem {
    pub next: *mut bb_bulk_problem,
    pub field: *const c_char,
    pub problem: *const c_char,
}

#[repr(C)]
pub struct bb_bulk_claim {
    pub name: *const c_char,
    pub field: *const c_char,
    pub from: i64,
    pub until: i64,
}

#[repr(C)]
pub struct bb_bulk_row {
    pub size: usize,
    pub number: i64,
    pub cells: *const *const c_char,
    pub problems: *mut bb_bulk_problem,
    pub claim: bb_bulk_claim,
    pub name_as_sent: *const c_char,
    pub warnings: *mut bb_bulk_problem,
}

#[repr(C)]
pub struct bb_bulk_rows {
    pub size: usize,
    pub help: *const c_char,
    pub roles: c_uint,
    pub rows_max: usize,
    pub columns: bb_table,
    pub name_column: usize,
    pub check: Option<extern "C" fn(*mut bb_request, *const bb_bulk_job, *const *mut bb_bulk_row,
        usize) -> c_int>,
    pub store: Option<extern "C" fn(*mut bb_request, *mut bb_tx, *const bb_bulk_job,
        *const *mut bb_bulk_row, usize) -> c_int>,
    pub together: bool,
}
