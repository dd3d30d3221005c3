//! The first error of a sink: nothing is printed after it, and the request ends with it.

use std::cell::RefCell;

use crate::outcome::error::{Error, Result};

#[derive(Debug, Default)]
pub struct SinkFailure(RefCell<Option<Error>>);

impl SinkFailure {
    pub fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Keeps the error of a result.
    pub fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.0.borrow_mut().get_or_insert(error);
        }
    }

    /// Returns the error, if there was one.
    pub fn check(&self) -> Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}
