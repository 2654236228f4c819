//! Types of bulk uploads, see <busbar/bulk.h>.
use crate::abi::*;
use crate::request::{result_of, serve, Error, Request};
use crate::sql::{borrowed, Tx};
use crate::{instance, only_a_function, Field, Text};
use std::mem::size_of;
use std::os::raw::{c_char, c_int, c_uint};
use std::ptr::null_mut;

/// The upload with the rows.
pub struct BulkJob<'a>(&'a bb_bulk_job);

impl<'a> BulkJob<'a> {
    /// Returns the organization to which all rows belong.
    pub fn organization(&self) -> i64 {
        self.0.organization
    }

    /// Returns the account that sent the rows; 0: the operator's command.
    pub fn account(&self) -> i64 {
        self.0.account
    }

    /// Returns its e-mail; "": the operator's command.
    pub fn email(&self) -> &'a str {
        unsafe { borrowed(self.0.email) }.unwrap_or("")
    }
}

/// A row of an upload.
pub struct BulkRow<'a> {
    rq: &'a Request,
    raw: *mut bb_bulk_row,
    columns: usize,
}

impl<'a> BulkRow<'a> {
    /// Returns the cell of a column; None if it is empty.
    pub fn cell(&self, column: usize) -> Option<&'a str> {
        if column >= self.columns {
            return None;
        }
        // SAFETY: a row has as many cells as the type has columns, and they live until the function returns.
        unsafe { borrowed(*(*self.raw).cells.add(column)) }
    }

    /// Returns the number of the row in the file, from 1.
    pub fn number(&self) -> i64 {
        unsafe { (*self.raw).number }
    }

    /// Returns whether the row has a problem.
    pub fn is_refused(&self) -> bool {
        !unsafe { (*self.raw).problems }.is_null()
    }

    fn copy(&self, text: &str) -> Result<*const c_char, Error> {
        let bytes = self.rq.alloc(text.len() + 1)?;

        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(bytes.as_ptr() as *const c_char)
    }

    /// Adds a problem with a column, or with "" for the whole row.
    pub fn problem(&self, field: &str, problem: &str) -> Result<(), Error> {
        let (field, problem) = (self.copy(field)?, self.copy(problem)?);
        let one = self.rq.alloc(size_of::<bb_bulk_problem>())?.as_mut_ptr() as *mut bb_bulk_problem;

        // SAFETY: the host's memory is aligned for every type. The list belongs to this row, which only this fiber uses.
        unsafe {
            one.write(bb_bulk_problem { next: null_mut(), field, problem });
            let mut last = &mut (*self.raw).problems;

            while !(*last).is_null() {
                last = &mut (**last).next;
            }
            *last = one;
        }
        Ok(())
    }
}

/// What the module does with the rows of a type: `check` finds their problems, and `store` stores those without.
#[repr(transparent)]
pub struct BulkRows(bb_bulk_rows);

// SAFETY: the pointers in it point to constants.
unsafe impl Sync for BulkRows {}

unsafe fn rows_of<'a>(rq: &'a Request, rows: *const *mut bb_bulk_row, count: usize, columns: usize) -> Vec<BulkRow<'a>> {
    (0..count).map(|at| BulkRow { rq, raw: unsafe { *rows.add(at) }, columns }).collect()
}

extern "C" fn check<F, const COLUMNS: usize>(
    raw: *mut bb_request,
    job: *const bb_bulk_job,
    rows: *const *mut bb_bulk_row,
    count: usize,
) -> c_int
where
    F: Fn(&Request, &BulkJob, &[BulkRow]) -> Result<(), Error> + Copy,
{
    // SAFETY: the host passes `count` rows, which live until this returns, as do the request and the job.
    unsafe {
        serve(raw, -1, |rq| {
            result_of(rq, instance::<F>()(rq, &BulkJob(&*job), &rows_of(rq, rows, count, COLUMNS)))
        })
    }
}

extern "C" fn store<F, const COLUMNS: usize>(
    raw: *mut bb_request,
    tx: *mut bb_tx,
    job: *const bb_bulk_job,
    rows: *const *mut bb_bulk_row,
    count: usize,
) -> c_int
where
    F: Fn(&Request, &Tx, &BulkJob, &[BulkRow]) -> Result<(), Error> + Copy,
{
    // SAFETY: as in check(), and the transaction lives until this returns.
    unsafe {
        serve(raw, -1, |rq| {
            let rows = rows_of(rq, rows, count, COLUMNS);

            result_of(rq, instance::<F>()(rq, &Tx::new(rq, tx), &BulkJob(&*job), &rows))
        })
    }
}

impl BulkRows {
    /// The roles may upload such rows.
    pub const fn new<C, S, const COLUMNS: usize>(
        help: Text,
        roles: c_uint,
        columns: &'static [Field; COLUMNS],
        _check: C,
        _store: S,
    ) -> BulkRows
    where
        C: Fn(&Request, &BulkJob, &[BulkRow]) -> Result<(), Error> + Copy + 'static,
        S: Fn(&Request, &Tx, &BulkJob, &[BulkRow]) -> Result<(), Error> + Copy + 'static,
    {
        only_a_function::<C>();
        only_a_function::<S>();
        BulkRows(bb_bulk_rows {
            size: size_of::<bb_bulk_rows>(),
            help: help.0,
            roles,
            columns: table(columns),
            check: Some(self::check::<C, COLUMNS>),
            store: Some(self::store::<S, COLUMNS>),
            ..bb_bulk_rows::ZERO
        })
    }
}
