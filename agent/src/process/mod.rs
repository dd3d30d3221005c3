//! What concerns the process alone: its log, its memory, and its terminal.

pub mod journal;
pub mod log_limit;
pub mod memory;
pub mod terminal;
