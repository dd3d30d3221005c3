//! A row of an entity. What is expensive to read is read when a condition, the order or the answer needs it.

use std::cell::OnceCell;
use std::fmt;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::entity::Entity;
use super::error::Result;
use super::field::QueryField;

type ReadRest<'a> = Box<dyn Fn() -> Result<Map<String, Value>> + 'a>;

/// A row.
pub(super) struct Row<'a> {
    known: Map<String, Value>,
    rest: Option<ReadRest<'a>>,
    read: OnceCell<Map<String, Value>>,
    /// How many rows it stands for, where only their number counts.
    pub(super) weight: u64,
}

/// Receives rows until it breaks.
pub(super) type VisitRow<'v, 'a> = &'v mut dyn FnMut(Row<'a>) -> Result<ControlFlow<()>>;

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("known", &self.known).finish_non_exhaustive()
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(known: Map<String, Value>) -> Self {
        Self { known, rest: None, read: OnceCell::new(), weight: 1 }
    }

    /// A row with fields that `rest` reads. Fields that are known are not taken from it.
    pub(super) fn with_rest(
        known: Map<String, Value>,
        rest: impl Fn() -> Result<Map<String, Value>> + 'a,
    ) -> Self {
        Self { rest: Some(Box::new(rest)), ..Self::new(known) }
    }

    /// The value of a column; null if there is none.
    pub(super) fn column(&self, name: &str) -> Result<&Value> {
        if let Some(value) = self.known.get(name) {
            return Ok(value);
        }
        let read = match (self.read.get(), &self.rest) {
            (Some(read), _) => Some(read),
            (None, Some(rest)) => {
                let read = rest()?;
                Some(self.read.get_or_init(|| read))
            }
            (None, None) => None,
        };
        Ok(read.and_then(|read| read.get(name)).unwrap_or(&Value::Null))
    }

    /// The value of a field; `None` if a map has no value at its path.
    pub(super) fn value(&self, field: &QueryField) -> Result<Option<&Value>> {
        Ok(field.find(self.column(field.column)?))
    }

    /// All fields of an answer.
    pub(super) fn to_answer(&self, entity: Entity) -> Result<Map<String, Value>> {
        let fields = entity.fields().iter();
        fields.map(|(name, _)| Ok(((*name).to_owned(), self.column(name)?.clone()))).collect()
    }
}
