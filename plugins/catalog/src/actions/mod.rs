//! The actions of `catalog` and `ledger`, one file each.

mod apply;
mod drop;
mod lint;
mod list;
mod plan;
mod replay;
mod run_input;

pub(crate) use apply::CatalogApplyAction;
pub(crate) use drop::LedgerDropAction;
pub(crate) use lint::CatalogLintAction;
pub(crate) use list::{LedgerListAction, read_owed_refreshes};
pub(crate) use plan::CatalogPlanAction;
pub(crate) use replay::LedgerReplayAction;
