//! The forms in which `PuppetDB` takes what it stores: facts in version 5, catalogs in version 9, inputs of a catalog in version 1, reports in version 8. Pure.
//!
//! What a node wrote is made to fit: a text that `PostgreSQL` cannot store is changed, a number that does not fit is left out. A command that `PuppetDB` discards
//! would lose all of it.

mod catalog;
mod edges;
mod facts;
mod inputs;
mod report;
mod report_resources;
mod rich_data;
mod ruby_text;
mod source;
mod values;

#[cfg(test)]
mod report_schema;
#[cfg(test)]
mod tests;

pub use catalog::{CatalogFormError, catalog_form};
pub use facts::{facts_form, trusted_facts};
pub use inputs::inputs_form;
pub use report::{ReportSource, report_form};
pub use source::FormSource;
pub(crate) use values::format_time;
