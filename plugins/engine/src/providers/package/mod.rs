//! Package managers behind one trait.

pub mod apt;
pub mod choice;
pub mod dpkg;
pub mod gem;
mod language;
pub(crate) mod list_cache;
pub mod npm;
pub mod pip;
pub mod rpm;
pub mod rpm_version;
mod tool;

use crate::error::{EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// State of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageState {
    /// Name, with `:arch` if it was queried that way.
    pub name: String,
    /// Whether it is installed.
    pub status: PackageInstallStatus,
    /// Whether it is held at its version.
    pub held: bool,
}

/// Installation status of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageInstallStatus {
    /// Installed, with its version.
    Installed(String),
    /// Removed, configuration files remain.
    Removed,
    /// Not present at all.
    Purged,
}

impl PackageState {
    /// State of a package that is not present.
    pub fn absent(name: &str) -> Self {
        Self { name: name.to_owned(), status: PackageInstallStatus::Purged, held: false }
    }

    fn installed(name: impl Into<String>, version: impl Into<String>) -> Self {
        let status = PackageInstallStatus::Installed(version.into());
        Self { name: name.into(), status, held: false }
    }
}

impl PackageInstallStatus {
    /// The version, if it is installed.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Installed(version) => Some(version),
            Self::Removed | Self::Purged => None,
        }
    }
}

/// An operation on a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageOperation<'a> {
    /// Install it, or upgrade it to the newest version.
    Install,
    /// Install this version; downgrades are allowed.
    InstallVersion(&'a str),
    /// Remove it and keep its configuration.
    Remove,
    /// Remove it and its configuration.
    Purge,
    /// Hold it at its version.
    Hold,
    /// Release the hold.
    Unhold,
}

impl<'a> PackageOperation<'a> {
    fn version(self) -> Option<&'a str> {
        match self {
            Self::InstallVersion(version) => Some(version),
            _ => None,
        }
    }
}

/// An installed package with a newer version available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutdatedPackage {
    /// Its name.
    pub name: String,
    /// Installed version.
    pub installed: String,
    /// Newest available version.
    pub newest: String,
}

/// Queries and changes packages.
pub trait PackageProvider: Sync {
    /// State of one package.
    fn query_package(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<PackageState>;

    /// Newest installable version; `None` if no source offers the package.
    fn candidate_version(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Option<String>>;

    /// Performs the operation.
    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: PackageOperation<'_>,
    ) -> Result<()>;

    /// All packages known on the machine.
    fn list_packages(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<PackageState>>;

    /// Packages that a full upgrade would change, according to the current package lists, sorted by
    /// name. Excludes held packages. The resource is used only in error messages.
    fn list_outdated(
        &self,
        _: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<OutdatedPackage>> {
        let problem = "this provider cannot list outdated packages";
        Err(EngineError::failed(resource, problem))
    }

    /// Updates the package lists and returns the tool's output. An unreachable source is an error.
    fn refresh_lists(&self, _: &ResourceContext<'_>, resource: &Resource) -> Result<String> {
        let problem = "this provider has no package lists to refresh";
        Err(EngineError::failed(resource, problem))
    }
}

/// Names of all providers.
pub const PACKAGE_PROVIDERS: &[&str] =
    &["apt", "dpkg", "dnf", "yum", "zypper", "pip", "pip3", "gem", "npm"];
