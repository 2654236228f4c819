//! Statements with their values and rows, units and transactions.
use crate::abi::*;
use crate::json::Json;
use crate::request::{Answer, Error, Reply, Request};
use crate::{c_text, Text};
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// A statement: `static FIND: Sql = Sql::read(c!("SELECT …"));`. Values are always parameters: $1, $2, …
#[repr(transparent)]
pub struct Sql(bb_sql);

impl Sql {
    /// A statement that only reads. The host repeats it if a connection is lost.
    pub const fn read(text: Text) -> Sql {
        Sql(bb_sql { text: text.0, flags: 0 })
    }

    /// A statement that writes.
    pub const fn write(text: Text) -> Sql {
        Sql(bb_sql { text: text.0, flags: BB_SQL_WRITE })
    }

    /// The cost of the statement depends on the amount of stored data. It runs on a separate connection.
    pub const fn long(mut self) -> Sql {
        self.0.flags |= BB_SQL_LONG;
        self
    }

    /// The statement may run on a replica: it only reads, decides nothing about access, and does not use now().
    pub const fn replica(mut self) -> Sql {
        self.0.flags |= BB_SQL_REPLICA;
        self
    }
}

/// A parameter of a statement: `&[account.into(), text.into()]`.
pub enum Value<'a> {
    /// SQL's null.
    Null,
    /// A text without zero bytes.
    Text(&'a str),
    /// A bigint.
    Int(i64),
    /// A double precision. Cast the parameter: `$1::double precision`.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// A bytea.
    Bytes(&'a [u8]),
    /// A bigint[].
    Ints(&'a [i64]),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Value<'a> {
        Value::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Value::Bool(yes)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Value<'a> {
        Value::Bytes(bytes)
    }
}

impl<'a> From<&'a [i64]> for Value<'a> {
    fn from(numbers: &'a [i64]) -> Value<'a> {
        Value::Ints(numbers)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Value<'a> {
        value.map_or(Value::Null, Into::into)
    }
}

/// Values as the host reads them, and the texts that they point to.
pub(crate) struct Values {
    pub(crate) list: Vec<bb_value>,
    _texts: Vec<CString>,
}

impl Values {
    pub(crate) fn new(values: &[Value]) -> Result<Values, Error> {
        let mut texts = Vec::new();
        let mut list = Vec::with_capacity(values.len());

        for value in values {
            let mut text = |text: CString| {
                let data = text.as_ptr() as *const c_void; // moving a CString does not move its bytes
                texts.push(text);
                (BB_V_TEXT, data, 0, 0)
            };
            let (kind, data, length, number) = match *value {
                Value::Null => (BB_V_NULL, null(), 0, 0),
                Value::Int(number) => (BB_V_INT, null(), 0, number),
                Value::Bytes(bytes) => (BB_V_BYTES, bytes.as_ptr() as *const c_void, bytes.len(), 0),
                Value::Ints(ints) => (BB_V_INTS, ints.as_ptr() as *const c_void, ints.len(), 0),
                Value::Bool(yes) => {
                    let text: &'static [u8] = if yes { b"t\0" } else { b"f\0" };
                    (BB_V_TEXT, text.as_ptr() as *const c_void, 0, 0)
                }
                Value::Number(number) => text(CString::new(number.to_string())?),
                Value::Text(bytes) => text(CString::new(bytes)?),
            };

            list.push(bb_value { kind, data, length, number });
        }
        Ok(Values { list, _texts: texts })
    }
}

/// The rows of a statement.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    rq: &'r Request,
    raw: *const bb_rows,
}

impl<'r> Rows<'r> {
    pub(crate) fn new(rq: &'r Request, raw: *const bb_rows) -> Result<Rows<'r>, Error> {
        if raw.is_null() {
            Err(Error::failed())
        } else {
            Ok(Rows { rq, raw })
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        unsafe { (self.rq.api().rows_count)(self.raw) }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of rows that the statement has inserted, changed or deleted.
    pub fn affected(&self) -> usize {
        unsafe { (self.rq.api().rows_affected)(self.raw) }
    }

    /// Returns a cell; None for SQL's null, and if there is no such row or column.
    pub fn text(&self, row: usize, column: usize) -> Option<&'r str> {
        if row >= self.len() || column > c_int::MAX as usize {
            return None;
        }
        // SAFETY: the row exists, the host returns NULL for a column that does not, and texts live as long as the request.
        let cell = unsafe { (self.rq.api().rows_text)(self.raw, row, column) };

        unsafe { borrowed(cell) }
    }

    /// Returns a cell of an integer or boolean column; 0 for SQL's null.
    pub fn int(&self, row: usize, column: usize) -> i64 {
        match self.text(row, column) {
            Some("t") => 1,
            Some(text) => text.parse().unwrap_or(0),
            None => 0,
        }
    }

    /// Returns a cell of a numeric column; None for SQL's null.
    pub fn number(&self, row: usize, column: usize) -> Option<f64> {
        self.text(row, column)?.parse().ok()
    }

    /// Returns the rows, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Row<'r>> {
        let rows = *self;

        (0..self.len()).map(move |row| Row { rows, row })
    }
}

/// A row of a statement.
#[derive(Clone, Copy)]
pub struct Row<'r> {
    rows: Rows<'r>,
    row: usize,
}

impl<'r> Row<'r> {
    /// Returns a cell; None for SQL's null, and if there is no such column.
    pub fn text(&self, column: usize) -> Option<&'r str> {
        self.rows.text(self.row, column)
    }

    /// Returns a cell of an integer or boolean column; 0 for SQL's null.
    pub fn int(&self, column: usize) -> i64 {
        self.rows.int(self.row, column)
    }

    /// Returns a cell of a numeric column; None for SQL's null.
    pub fn number(&self, column: usize) -> Option<f64> {
        self.rows.number(self.row, column)
    }
}

/// Returns a text of the host; None for NULL, and if it is not UTF-8. The text must live during 'a.
pub(crate) unsafe fn borrowed<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        None
    } else {
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

/// The readers of an event, in addition to Admins.
#[derive(Default)]
pub struct Audience<'a> {
    /// Accounts that act for this organization; 0: none.
    pub organization: i64,
    /// Accounts with these e-mails.
    pub emails: &'a [&'a str],
}

fn emit(rq: &Request, tx: *mut bb_tx, name: &str, payload: Json, readers: &Audience) -> Result<(), Error> {
    let emails: Vec<CString> = readers.emails.iter().map(|email| c_text(email)).collect();
    let mut list: Vec<*const c_char> = emails.iter().map(|email| email.as_ptr()).collect();

    list.push(null());
    let audience = bb_audience {
        size: std::mem::size_of::<bb_audience>(),
        organization: readers.organization,
        emails: list.as_ptr(),
    };
    let (name, readers, json) = (c_text(name), &audience, payload.into_raw());
    let name = name.as_ptr();
    let api = rq.api();

    rq.check(rq.host(-1, move || unsafe { (api.emit)(tx, name, json, readers) }))
}

fn add(rq: &Request, tx: *mut bb_tx, sql: &'static Sql, values: &[Value]) -> Result<c_int, Error> {
    let values = Values::new(values)?;
    let (data, count, sql, api) = (values.list.as_ptr(), values.list.len(), &sql.0, rq.api());
    let index = rq.host(-1, move || unsafe { (api.add)(tx, sql, data, count) });

    rq.check(index)?;
    Ok(index)
}

/// A list of statements that the host runs in one transaction, together with the units of other requests.
pub struct Unit<'r> {
    pub(crate) rq: &'r Request,
    pub(crate) raw: *mut bb_tx,
}

impl Unit<'_> {
    /// Adds a statement. If it raises an error, the unit is rolled back.
    pub fn add(&self, sql: &'static Sql, values: &[Value]) -> Result<(), Error> {
        add(self.rq, self.raw, sql, values).map(|_| ())
    }

    /// Raises an event that the module declares.
    pub fn emit(&self, name: &str, payload: Json, readers: &Audience) -> Result<(), Error> {
        emit(self.rq, self.raw, name, payload, readers)
    }

    /// Runs the statements, commits them, and responds. Parks.
    pub fn commit(self, status: c_int, json: Json) -> Answer {
        let (rq, tx, json) = (self.rq, self.raw, json.into_raw());
        let (api, raw) = (rq.api(), rq.as_raw());
        let answered = rq.park(0, move || unsafe { (api.commit)(raw, tx, status, json) });

        if answered == 0 {
            Err(Error::failed())
        } else {
            Ok(Reply::new(answered))
        }
    }
}

/// A transaction with a separate connection, see Request::transaction().
pub struct Tx<'r> {
    rq: &'r Request,
    raw: *mut bb_tx,
}

impl<'r> Tx<'r> {
    pub(crate) fn new(rq: &'r Request, raw: *mut bb_tx) -> Tx<'r> {
        Tx { rq, raw }
    }

    /// Runs a statement. Parks.
    pub fn query(&self, sql: &'static Sql, values: &[Value]) -> Result<Rows<'r>, Error> {
        let values = Values::new(values)?;
        let (data, count, sql) = (values.list.as_ptr(), values.list.len(), &sql.0);
        let (api, tx) = (self.rq.api(), self.raw);

        Rows::new(self.rq, self.rq.park(null_mut(), move || unsafe { (api.tx_query)(tx, sql, data, count) }))
    }

    /// Raises an event that the module declares.
    pub fn emit(&self, name: &str, payload: Json, readers: &Audience) -> Result<(), Error> {
        emit(self.rq, self.raw, name, payload, readers)
    }
}
