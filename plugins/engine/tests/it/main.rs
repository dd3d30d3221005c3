//! Tests of the public API of the engine, in scratch directories with real files and programs, and on the in-memory system.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy excuses test functions only, and the helpers beside them are tests too"
)]

mod support;

mod accounts;
mod disturbed_properties;
mod exec;
mod external;
mod file;
mod file_sources;
mod motd_fragments;
mod mounts;
mod munge;
mod noop_runs;
mod package;
mod package_tools;
mod parsed_files;
mod plan;
mod properties;
mod puppet;
mod purging;
mod recursion;
mod reference;
mod relations;
mod schedules;
mod service;
mod shared_records;
mod static_catalogs;
mod supervised;
