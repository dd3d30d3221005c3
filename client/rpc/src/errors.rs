//! Hints and exit codes of the libraries' errors, one file per library.

mod jobs;
mod request;
