//! Scheduled checks: files of schedules, the states of checks, and the task that runs them.

pub(crate) mod actions;
mod check_book;
pub mod check_record;
mod describe;
pub mod flapping;
mod monitor;
mod monitor_state;
pub(crate) mod orphans;
pub mod schedule_file;
mod schedule_table;
mod state_file;
pub mod timing;

pub use check_book::StoredCheckEvent;
pub use monitor::CheckMonitor;
