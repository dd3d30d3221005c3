//! What an operator of a field is, and what the files of the operators use.

pub(super) use super::super::literal::{QueryValue, join_texts};
pub(super) use super::super::read::{RelaxedKind, RelaxedValue, has_operators};
pub(super) use super::super::subject::TestSubject;
pub(super) use super::super::usage::QueryUsage;
pub(super) use super::super::value::NodeValue;
pub(super) use crate::error::{Result, expected_at};
pub(super) use crate::text::join_phrases;

/// An operator with its operand.
pub(super) trait FieldOperator: Sized {
    /// Its name, or those of its family.
    const NAMES: &'static [&'static str];
    /// Its rows in the table of `docs/reference/queries.md`.
    const REFERENCE: &'static str;
    /// Reads the operand. `name` is one of the names.
    fn read(name: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self>;
    fn matches(&self, subject: TestSubject<'_>) -> bool;
    /// Prints the name and the operand, so that they are read as the same test.
    fn print(&self) -> String;
    /// A phrase that follows the field.
    fn explain(&self) -> String;
    /// Lists of values, of each of which the field must equal one.
    fn necessary(&self) -> Vec<Vec<&QueryValue>> {
        Vec::new()
    }
}
