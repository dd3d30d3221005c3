//! Platform implementations behind one trait per kind: package managers, init systems, file formats.

pub mod account_names;
pub mod accounts;
pub mod bucket;
pub mod digest;
pub mod glob;
pub mod package;
pub mod parsed_file;
pub mod paths;
pub mod service;
pub mod walk;
