//! The actions, one file each.

mod apply;
mod ask;
mod drop;
mod lint;
mod list;
mod plan;
mod replay;

pub(crate) use apply::Apply;
pub(crate) use drop::Drop;
pub(crate) use lint::Lint;
pub(crate) use list::{List, debts};
pub(crate) use plan::Plan;
pub(crate) use replay::Replay;
