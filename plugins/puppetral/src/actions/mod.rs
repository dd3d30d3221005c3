//! One file per action.

mod r#do;
mod find;
mod plan;
mod search;

pub(crate) use r#do::Do;
pub(crate) use find::Find;
pub(crate) use plan::Plan;
pub(crate) use search::Search;
