//! The fleet as a `PuppetDB` that is only read: a subset of its query API, version 4, for tools that are made for it.
//!
//! [`PuppetdbPages`] answers requests of the HTTP server of the directory. A page reads its `parameters`, a query is read as a `statement` with a `condition`, and
//! `run` collects the rows of an `entity` that it selects. Rows come from the services of this host: the directory, the history, and released catalogs.

mod catalog_rows;
mod collect;
mod condition;
mod entity;
mod error;
mod evaluate;
mod event_counts;
mod fact_rows;
mod field;
mod known_catalogs;
mod metrics;
mod node_rows;
mod pages;
mod parameters;
mod reader;
mod report_rows;
mod row;
mod run;
mod scope;
mod sources;
mod statement;
mod value;

#[cfg(test)]
mod tests;

pub use known_catalogs::KnownCatalogs;
pub use pages::PuppetdbPages;
pub use sources::QuerySources;
