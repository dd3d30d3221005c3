//! An unmodified `puppet agent` and the gateway: runs, who may read what, and hostile requests.

mod access;
mod fixture;
mod hostile;
mod long;
mod runs;
