//! Hints and exit codes for the errors of libraries, one file per area.

mod bundle;
mod organisation;
mod policy;
