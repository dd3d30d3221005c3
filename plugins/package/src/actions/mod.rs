//! The actions of `package`, one module each.

mod checkupdates;
mod install;
mod purge;
mod refresh;
mod status;
mod uninstall;
mod update;

pub(crate) use checkupdates::PackageCheckupdatesAction;
pub(crate) use install::PackageInstallAction;
pub(crate) use purge::PackagePurgeAction;
pub(crate) use refresh::PackageRefreshAction;
pub(crate) use status::PackageStatusAction;
pub(crate) use uninstall::PackageUninstallAction;
pub(crate) use update::PackageUpdateAction;
