//! Hints and exit codes of the libraries' errors, one file per area.

mod bundle;
mod jobs;
mod organisation;
mod policy;
mod request;
