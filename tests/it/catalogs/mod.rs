//! Catalogs that are compiled ahead: what a compile reads, and what it can reach.

mod addresses;
mod fact_reads;
mod file_reads;
mod fixture;
mod isolation;
