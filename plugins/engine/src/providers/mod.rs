//! The ways to the same end, behind a trait each: which package tool, which init system, which kind of file.

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
