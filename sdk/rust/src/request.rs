//! Requests: what a handler, a job or a hook reads, does and answers.
use crate::abi::*;
use crate::json::{Json, JsonRef};
use crate::sql::{borrowed, Row, Rows, Sql, Tx, Unit, Value, Values};
use crate::c_text;
use std::borrow::Cow;
use std::cell::Cell;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};

/// A request: an HTTP request, a run of a job, or a committed hook. It belongs to its fiber, so it is not Send. References
/// from it live as long as the request.
pub struct Request {
    raw: *mut bb_request,
    ended: Cell<bool>, // memory ran out, see host()
}

/// The response that a handler has sent.
pub struct Reply(c_int);

impl Reply {
    pub(crate) fn new(status: c_int) -> Reply {
        Reply(status)
    }

    /// Returns the status.
    pub fn status(&self) -> c_int {
        self.0
    }
}

/// What a handler returns.
pub type Answer = Result<Reply, Error>;

/// Why a handler ends early; the layer sends the response. `?` also converts every error of other libraries: they are
/// logged, and the response is 500.
pub struct Error(Kind);

enum Kind {
    Failed,
    Status(c_int, Cow<'static, str>),
    Invalid(Cow<'static, str>, Cow<'static, str>),
    Other(String),
}

impl Error {
    /// A function of the host failed. The host knows the reason, and responds as bb_failed() does.
    pub fn failed() -> Error {
        Error(Kind::Failed)
    }

    /// Responds with this status, and with a message for the client.
    pub fn status(status: c_int, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Kind::Status(status, message.into()))
    }

    /// Responds with 400 and the problem of a field.
    pub fn invalid(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Error {
        Error(Kind::Invalid(field.into(), problem.into()))
    }

    fn answer(self, rq: &Request) -> c_int {
        let (api, raw) = (rq.api(), rq.raw);

        match self.0 {
            Kind::Failed => rq.host(503, move || unsafe { (api.failed)(raw) }),
            Kind::Status(status, message) => rq.fail(status, Some(&message)),
            Kind::Invalid(field, problem) => {
                let (field, problem) = (c_text(&field), c_text(&problem));
                let (field, problem) = (field.as_ptr(), problem.as_ptr());

                rq.host(400, move || unsafe { (api.invalid_text)(raw, field, problem) })
            }
            Kind::Other(text) => {
                rq.log(Level::Error, &text);
                rq.fail(500, None)
            }
        }
    }

    /// Logs an error that no client sees.
    fn report(self, rq: &Request) {
        match self.0 {
            Kind::Failed => {} // the host has logged it
            Kind::Status(_, text) | Kind::Invalid(_, text) => rq.log(Level::Error, &text),
            Kind::Other(text) => rq.log(Level::Error, &text),
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error(Kind::Other(error.to_string()))
    }
}

/// The level of a log line.
#[derive(Clone, Copy)]
pub enum Level {
    /// For developers.
    Debug = BB_DEBUG as isize,
    /// For operators.
    Info = BB_INFO as isize,
    /// Something works less well.
    Warn = BB_WARN as isize,
    /// Something does not work.
    Error = BB_ERROR as isize,
}

/// The account that sent the request.
pub struct Principal<'r>(&'r bb_principal);

impl<'r> Principal<'r> {
    /// Returns the id of the account.
    pub fn account(&self) -> i64 {
        self.0.account
    }

    /// Returns the e-mail in lower case.
    pub fn email(&self) -> &'r str {
        unsafe { borrowed(self.0.email) }.unwrap_or("")
    }

    /// Returns one of the constants BB_ROLE_…
    pub fn role(&self) -> c_uint {
        self.0.role
    }

    /// Returns the account's own organization; 0: none.
    pub fn organization(&self) -> i64 {
        self.0.organization
    }
}

/// A call of the host, on the stack of its caller.
struct Frame<F, R> {
    call: F,
    result: R,
}

/// Runs the call within bb_guard(). If memory runs out, the host leaves this frame and the frames of `call` by longjmp(). This
/// is sound because neither has a destructor: F and R are Copy.
unsafe extern "C" fn call_host<F: FnOnce() -> R + Copy, R: Copy>(_: *mut bb_request, frame: *mut c_void) {
    let frame = unsafe { &mut *(frame as *mut Frame<F, R>) };

    frame.result = (frame.call)();
}

impl Request {
    pub(crate) fn api(&self) -> &'static bb_api {
        // SAFETY: the host's table of functions is a constant of the program.
        unsafe { &*(*self.raw).api }
    }

    /// Returns the request for calls of functions in `abi`.
    pub fn as_raw(&self) -> *mut bb_request {
        self.raw
    }

    /// Calls the host, and returns the result of the call. Without memory, returns `absent` from then on.
    ///
    /// If memory runs out in a function of the host, the host would abandon the fiber in this function: destructors of
    /// the module's values would not run, but their memory, which other code may still point to, would be used for the
    /// next fiber. Rust allows this only for frames without destructors. So every function that can run out of memory is
    /// called within bb_guard(), which returns instead. `ended` then keeps the module from calling the host again. The
    /// functions of the module return in the normal way, because each result is absent or an error, and serve() ends
    /// the request when no value of the module is left.
    pub(crate) fn host<R: Copy, F: FnOnce() -> R + Copy>(&self, absent: R, call: F) -> R {
        let mut frame = Frame { call, result: absent };

        if self.ended.get() {
            return absent;
        }
        // SAFETY: call_host() gets the frame that it expects, which lives until guard() returns.
        let failed = unsafe {
            (self.api().guard)(self.raw, Some(call_host::<F, R>), &mut frame as *mut Frame<F, R> as *mut c_void)
        };

        if failed != 0 {
            self.ended.set(true);
            return absent;
        }
        frame.result
    }

    /// Calls a function of the host that parks. Not while a panic unwinds, because Rust counts panics for each thread,
    /// and the thread runs other fibers meanwhile. Only destructors can try this.
    pub(crate) fn park<R: Copy, F: FnOnce() -> R + Copy>(&self, absent: R, call: F) -> R {
        if std::thread::panicking() {
            return absent;
        }
        self.host(absent, call)
    }

    pub(crate) fn check(&self, result: c_int) -> Result<(), Error> {
        if result < 0 {
            Err(Error::failed())
        } else {
            Ok(())
        }
    }

    /// Returns a setting of the module; "" if it is not declared.
    pub fn setting_text(&self, name: &str) -> &str {
        let name = c_text(name);

        unsafe { borrowed((self.api().setting_text)((*self.raw).host, name.as_ptr())) }.unwrap_or("")
    }

    /// Returns a setting of the type integer or boolean; 0 if it is not declared.
    pub fn setting_int(&self, name: &str) -> i64 {
        let name = c_text(name);

        unsafe { (self.api().setting_int)((*self.raw).host, name.as_ptr()) }
    }

    /// Returns a setting of the type number; 0 if it is not declared.
    pub fn setting_number(&self, name: &str) -> f64 {
        let name = c_text(name);

        unsafe { (self.api().setting_number)((*self.raw).host, name.as_ptr()) }
    }

    /// Returns the account that sent the request; None on public routes, and in jobs and hooks.
    pub fn principal(&self) -> Option<Principal<'_>> {
        unsafe { (*self.raw).principal.as_ref() }.map(Principal)
    }

    /// Like principal(); an error (500) if there is none.
    pub fn caller(&self) -> Result<Principal<'_>, Error> {
        self.principal().ok_or_else(|| Error(Kind::Other("the request has no account".to_string())))
    }

    /// Returns the checked body, an object.
    pub fn body(&self) -> Option<JsonRef<'_>> {
        unsafe { JsonRef::new((self.api().body)(self.raw)) }
    }

    /// Returns a text of the body; None if it is absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.body()?.get(name)?.as_str()
    }

    /// Returns an integer of the body; None if it is absent.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.body()?.get(name)?.as_int()
    }

    /// Returns a number of the body; None if it is absent.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.body()?.get(name)?.as_number()
    }

    fn named(&self, get: unsafe extern "C" fn(*mut bb_request, *const c_char) -> *const c_char, name: &str) -> Option<&str> {
        let (name, raw) = (c_text(name), self.raw);
        let name = name.as_ptr();

        unsafe { borrowed(self.host(null(), move || get(raw, name))) }
    }

    /// Returns a segment of the path.
    pub fn segment(&self, name: &str) -> &str {
        self.named(self.api().segment, name).unwrap_or("")
    }

    /// Returns a parameter of the query; None if it is absent.
    pub fn arg(&self, name: &str) -> Option<&str> {
        self.named(self.api().arg, name)
    }

    /// Returns a parameter of the type integer; `absent` if it is absent.
    pub fn arg_int(&self, name: &str, absent: i64) -> i64 {
        let (name, api, raw) = (c_text(name), self.api(), self.raw);
        let name = name.as_ptr();

        self.host(absent, move || unsafe { (api.arg_int)(raw, name, absent) })
    }

    /// Returns a header of the request; None if it is absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.named(self.api().header, name)
    }

    /// Returns zeroed memory that lives as long as the request.
    pub fn alloc(&self, size: usize) -> Result<&mut [u8], Error> {
        let (api, raw) = (self.api(), self.raw);
        let memory = self.host(null_mut(), move || unsafe { (api.alloc)(raw, size) });

        if memory.is_null() {
            return Err(Error::failed());
        }
        // SAFETY: nobody else has these bytes, and the host frees them when the request has ended.
        Ok(unsafe { std::slice::from_raw_parts_mut(memory as *mut u8, size) })
    }

    /// Writes a log line. Do not log secrets or texts of people.
    pub fn log(&self, level: Level, text: &str) {
        let (text, api, raw) = (c_text(text), self.api(), self.raw);
        let text = text.as_ptr();

        self.host((), move || unsafe { (api.log_text)(raw, level as c_uint, text) })
    }

    /// Adds a warning to the response.
    pub fn warn(&self, text: &str) {
        let (text, api, raw) = (c_text(text), self.api(), self.raw);
        let text = text.as_ptr();

        self.host((), move || unsafe { (api.warn_text)(raw, text) })
    }

    /// Runs a statement. Parks.
    pub fn query(&self, sql: &'static Sql, values: &[Value]) -> Result<Rows<'_>, Error> {
        let values = Values::new(values)?;
        let (data, count, sql) = (values.list.as_ptr(), values.list.len(), sql.as_raw());
        let (api, raw) = (self.api(), self.raw);

        Rows::new(self, self.park(null_mut(), move || unsafe { (api.query)(raw, sql, data, count) }))
    }

    /// Returns the next id of a sequence. Parks.
    pub fn next_id(&self, sequence: &str) -> Result<i64, Error> {
        let (sequence, api, raw) = (c_text(sequence), self.api(), self.raw);
        let sequence = sequence.as_ptr();
        let id = self.park(-1, move || unsafe { (api.next_id)(raw, sequence) });

        if id < 0 {
            Err(Error::failed())
        } else {
            Ok(id)
        }
    }

    /// Creates a unit. Units with the same key run one after the other: use the id of the row that the unit locks.
    pub fn unit(&self, key: i64) -> Result<Unit<'_>, Error> {
        let (api, host_request) = (self.api(), self.raw);
        let raw = self.host(null_mut(), move || unsafe { (api.unit)(host_request, key as u64) });

        if raw.is_null() {
            Err(Error::failed())
        } else {
            Ok(Unit { rq: self, raw })
        }
    }

    /// Runs `work` in a transaction with a separate connection. If it returns a response below 400, the transaction is
    /// committed, otherwise it is rolled back. Parks.
    pub fn transaction<F: FnOnce(&Tx) -> Answer>(&self, work: F) -> Answer {
        struct Call<'a, F> {
            rq: &'a Request,
            work: Option<F>,
        }
        extern "C" fn run<F: FnOnce(&Tx) -> Answer>(_: *mut bb_request, tx: *mut bb_tx, call: *mut c_void) -> c_int {
            // SAFETY: the host passes the argument of `transaction` below, which lives until that function returns.
            let call = unsafe { &mut *(call as *mut Call<F>) };
            let (rq, work) = (call.rq, &mut call.work);

            rq.enter(500, |rq| match work.take() {
                Some(work) => work(&Tx::new(rq, tx)).map_or_else(|error| error.answer(rq), |reply| reply.0),
                None => 500,
            })
        }
        let mut call = Call { rq: self, work: Some(work) };
        let (api, raw, arg) = (self.api(), self.raw, &mut call as *mut Call<F> as *mut c_void);
        let status = self.park(0, move || unsafe { (api.transaction)(raw, Some(run::<F>), arg) });

        if status == 0 {
            Err(Error::failed())
        } else {
            Ok(Reply(status))
        }
    }

    /// Responds with JSON. Parks while a large response is written.
    pub fn reply(&self, status: c_int, json: Json) -> Answer {
        let (api, raw, json) = (self.api(), self.raw, json.into_raw());

        Ok(Reply(self.park(503, move || unsafe { (api.reply)(raw, status, json) })))
    }

    /// Responds with a page of a list: `item` converts each row. Select one row more than `limit`: if it exists, the
    /// response has a Link to the next page, with the cell `key` of the last row as its cursor.
    pub fn reply_rows(&self, rows: &Rows, limit: usize, key: usize, item: impl Fn(Row) -> Json) -> Answer {
        if rows.len() > limit && limit > 0 {
            let (cursor, api, raw) = (c_text(rows.text(limit - 1, key).unwrap_or("")), self.api(), self.raw);
            let cursor = cursor.as_ptr();

            self.check(self.host(-1, move || unsafe { (api.reply_next)(raw, cursor) }))?;
        }
        self.reply(200, rows.iter().take(limit).map(item).collect())
    }

    fn fail(&self, status: c_int, message: Option<&str>) -> c_int {
        let (message, api, raw) = (message.map(c_text), self.api(), self.raw);
        let message = message.as_ref().map_or(null(), |text| text.as_ptr());

        self.host(status, move || unsafe { (api.fail_text)(raw, status, message) })
    }

    /// In a job: makes it run again soon, because work is left.
    pub fn again(&self) {
        unsafe { (self.api().again)(self.raw) }
    }

    /// Runs a function of the module on behalf of the host. A panic must not reach the host: it is
    /// logged, the response is 500, and the result is `panicked`. If memory ran out, ends the
    /// request or continues in the guard around this call. Nothing in this frame has a destructor
    /// then.
    fn enter<R: Copy>(&self, panicked: R, work: impl FnOnce(&Request) -> R) -> R {
        let result = match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(result) => result,
            Err(panic) => {
                if let Err(another) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
                    std::mem::forget(another);
                }
                self.log(Level::Error, "a handler panicked");
                self.fail(500, None);
                panicked
            }
        };

        if self.ended.get() {
            unsafe { (self.api().alloc)(self.raw, usize::MAX) }; // does not return
        }
        result
    }
}

impl Sql {
    fn as_raw(&self) -> *const bb_sql {
        self as *const Sql as *const bb_sql // repr(transparent)
    }
}

/// Calls a function of the module for a request that the host passes. `raw` must be valid until it returns.
pub(crate) unsafe fn serve<R: Copy>(raw: *mut bb_request, panicked: R, work: impl FnOnce(&Request) -> R) -> R {
    Request { raw, ended: Cell::new(false) }.enter(panicked, work)
}

pub(crate) fn status_of(rq: &Request, answer: Answer) -> c_int {
    answer.map_or_else(|error| error.answer(rq), |reply| reply.0)
}

/// Returns 0, or -1 for an error that bb_failed() answers.
pub(crate) fn result_of(rq: &Request, result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.report(rq);
            -1
        }
    }
}

/// An event, in a hook.
pub struct Event<'a>(&'a bb_event);

impl<'a> Event<'a> {
    pub(crate) fn new(raw: &'a bb_event) -> Event<'a> {
        Event(raw)
    }

    /// Returns the name, such as "message.new".
    pub fn name(&self) -> &'a str {
        unsafe { borrowed(self.0.name) }.unwrap_or("")
    }

    /// Returns the UUID of this event.
    pub fn id(&self) -> &'a str {
        unsafe { borrowed(self.0.id) }.unwrap_or("")
    }

    /// Returns the payload, an object.
    pub fn payload(&self) -> Option<JsonRef<'a>> {
        unsafe { JsonRef::new(self.0.payload) }
    }
}
