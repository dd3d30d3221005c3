//! The tools that install packages, behind one trait.

pub mod apt;
pub mod dpkg;
pub mod gem;
pub(crate) mod list_cache;
pub mod npm;
pub mod pip;
pub mod rpm;
pub mod rpm_version;
mod tool;

use std::path::Path;

use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// What a tool knows about one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageState {
    /// Its name, with `:arch` where it was asked for so.
    pub name: String,
    /// Whether it is there.
    pub status: PackageInstallStatus,
    /// Whether it is kept at its version.
    pub held: bool,
}

/// Whether a package is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageInstallStatus {
    /// Installed, in this version.
    Installed(String),
    /// Removed, but its configuration is there.
    Removed,
    /// Nothing of it is there.
    Purged,
}

impl PackageState {
    /// One that is not there.
    pub fn absent(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            status: PackageInstallStatus::Purged,
            held: false,
        }
    }
}

/// What is to be done about a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageOperation<'a> {
    /// Install it, or bring it to the newest version.
    Install,
    /// Install this version, older ones too.
    InstallVersion(&'a str),
    /// Remove it, keep its configuration.
    Remove,
    /// Remove it with its configuration.
    Purge,
    /// Keep it at its version.
    Hold,
    /// Let it change again.
    Unhold,
}

/// A package that is installed, and for which there is a newer version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutdatedPackage {
    /// Its name.
    pub name: String,
    /// The version that is there.
    pub installed: String,
    /// The version that could be.
    pub newest: String,
}

/// A way to look packages up and to change them.
pub trait PackageProvider: Sync {
    /// What is known about one package.
    fn query_package(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<PackageState, EngineError>;

    /// The newest version that could be installed; `None` when nobody offers the package.
    fn candidate_version(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Option<String>, EngineError>;

    /// Does it.
    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        action: PackageOperation<'_>,
    ) -> Result<(), EngineError>;

    /// Every package that is known on the machine.
    fn list_packages(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<PackageState>, EngineError>;

    /// What an upgrade of the whole machine would bring to newer versions, by the package lists that are there; sorted by
    /// name. What is held is not among them. The resource only names whom an error concerns.
    fn list_outdated(
        &self,
        _: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<OutdatedPackage>, EngineError> {
        let problem = "this tool does not tell what is outdated";
        Err(EngineError::failed(resource, problem))
    }

    /// Gets the package lists anew, and returns what the tool said. A source that does not answer is a failure.
    fn refresh_lists(
        &self,
        _: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<String, EngineError> {
        let problem = "this tool has no package lists of its own";
        Err(EngineError::failed(resource, problem))
    }
}

/// The names of all tools.
pub const PACKAGE_PROVIDERS: &[&str] = &[
    "apt", "dpkg", "dnf", "yum", "zypper", "pip", "pip3", "gem", "npm",
];

static PIP_PROVIDER: pip::PipPackageProvider = pip::PipPackageProvider(&["pip3", "pip"]);
static PIP3_PROVIDER: pip::PipPackageProvider = pip::PipPackageProvider(&["pip3"]);

/// The tool that the resource names, or else the one that the machine is made of; with its name.
pub fn choose_provider(
    cx: &ResourceContext<'_>,
    resource: &Resource,
) -> Result<(&'static str, &'static dyn PackageProvider), EngineError> {
    let named = resource.get_text("provider");
    let word = match named.and_then(|name| PACKAGE_PROVIDERS.iter().find(|known| **known == name)) {
        Some(known) => known,
        None => native_provider_name(cx, resource)?,
    };
    let provider: &'static dyn PackageProvider = match word {
        "dpkg" => &dpkg::DpkgPackageProvider,
        "dnf" => &rpm::RpmPackageProvider::Dnf,
        "yum" => &rpm::RpmPackageProvider::Yum,
        "zypper" => &rpm::RpmPackageProvider::Zypper,
        "pip" => &PIP_PROVIDER,
        "pip3" => &PIP3_PROVIDER,
        "gem" => &gem::GemPackageProvider,
        "npm" => &npm::NpmPackageProvider,
        _ => &apt::AptPackageProvider,
    };
    Ok((word, provider))
}

/// The tool of the machine's own package system; apt, which says what it misses, where there is none.
fn native_provider_name(
    cx: &ResourceContext<'_>,
    resource: &Resource,
) -> Result<&'static str, EngineError> {
    for (path, word) in [
        (dpkg::DPKG_STATUS_FILE, "apt"),
        ("/usr/bin/dnf", "dnf"),
        ("/usr/bin/yum", "yum"),
        ("/usr/bin/zypper", "zypper"),
    ] {
        let looking = EngineError::during(resource, format!("looking for {word}"));
        if cx
            .system
            .metadata(Path::new(path))
            .map_err(looking)?
            .is_some()
        {
            return Ok(word);
        }
    }
    Ok("apt")
}
