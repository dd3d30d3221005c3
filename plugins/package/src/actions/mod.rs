//! One file per action.

mod checkupdates;
mod install;
mod purge;
mod refresh;
mod status;
mod uninstall;
mod update;

pub(crate) use checkupdates::Checkupdates;
pub(crate) use install::Install;
pub(crate) use purge::Purge;
pub(crate) use refresh::Refresh;
pub(crate) use status::Status;
pub(crate) use uninstall::Uninstall;
pub(crate) use update::Update;
