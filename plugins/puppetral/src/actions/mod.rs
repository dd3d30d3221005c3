//! The actions, one file each.

mod r#do;
mod find;
mod plan;
mod search;

pub(crate) use r#do::PuppetralDoAction;
pub(crate) use find::PuppetralFindAction;
pub(crate) use plan::PuppetralPlanAction;
pub(crate) use search::PuppetralSearchAction;
