//! A data source: a value that a node can be asked for by name, and, later, filtered by.

use crate::action::Answer;
use crate::context::Context;

/// A queryable value on a node, such as `fact('os.family')` or `fstat('/etc/hosts')`.
pub trait DataSource: Send + Sync + 'static {
    /// The name in a query.
    fn name(&self) -> &'static str;

    /// One sentence.
    fn description(&self) -> &'static str;

    /// Looks the value up; the answer is a flat object of named values.
    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a>;
}
