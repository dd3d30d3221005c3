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
use crate::resource_type::BoundResource;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageState {
    /// Name, with `:arch` if it was queried that way.
    pub name: String,
    pub status: PackageInstallStatus,
    pub held: bool,
}

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
    pub fn absent(name: &str) -> Self {
        Self { name: name.to_owned(), status: PackageInstallStatus::Purged, held: false }
    }

    fn installed(name: impl Into<String>, version: impl Into<String>) -> Self {
        let status = PackageInstallStatus::Installed(version.into());
        Self { name: name.into(), status, held: false }
    }
}

impl PackageInstallStatus {
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Installed(version) => Some(version),
            Self::Removed | Self::Purged => None,
        }
    }
}

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
    Hold,
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
    pub name: String,
    pub installed: String,
    pub newest: String,
}

pub trait PackageProvider: Sync {
    fn query_package(&self, resource: &BoundResource<'_>) -> Result<PackageState>;

    /// Newest installable version; `None` if no source offers the package.
    fn candidate_version(&self, resource: &BoundResource<'_>) -> Result<Option<String>>;

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: PackageOperation<'_>,
    ) -> Result<()>;

    fn list_packages(&self, resource: &BoundResource<'_>) -> Result<Vec<PackageState>>;

    /// Packages that a full upgrade would change, according to the current package lists, sorted by
    /// name. Excludes held packages. The resource is used only in error messages.
    fn list_outdated(&self, resource: &BoundResource<'_>) -> Result<Vec<OutdatedPackage>> {
        let problem = "this provider cannot list outdated packages";
        Err(EngineError::failed(resource, problem))
    }

    /// Updates the package lists and returns the tool's output. An unreachable source is an error.
    fn refresh_lists(&self, resource: &BoundResource<'_>) -> Result<String> {
        let problem = "this provider has no package lists to refresh";
        Err(EngineError::failed(resource, problem))
    }
}

pub const PACKAGE_PROVIDERS: &[&str] =
    &["apt", "dpkg", "dnf", "yum", "zypper", "pip", "pip3", "gem", "npm"];
