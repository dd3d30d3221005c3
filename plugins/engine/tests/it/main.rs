//! The engine through its own door, on scratch directories (real files, real programs) and on a machine in memory.

mod support;

mod exec;
mod file;
mod munge;
mod package;
mod parsed_files;
mod service;
