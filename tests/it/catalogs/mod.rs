//! Catalogs that are compiled ahead: what a compile reads, what it can reach, and which nodes are compiled.

mod addresses;
mod collection;
mod commands;
mod compiles;
mod fact_reads;
mod file_reads;
pub(crate) mod fixture;
mod fleet;
mod isolation;
mod killed;
mod long;
mod programs;
mod puppet_engine;
mod queue;
mod releases;
mod stub;
