//! The actions of `shell`, one module for each subject.

pub(crate) mod jobs;
pub(crate) mod run;
pub(crate) mod tail;
