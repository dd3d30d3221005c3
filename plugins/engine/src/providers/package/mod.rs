//! The tools that install packages, behind one trait.

pub mod apt;
pub mod dpkg;
pub mod gem;
pub(crate) mod memo;
pub mod npm;
pub mod pip;
pub mod rpm;
pub mod rpm_version;
mod tool;

use std::path::Path;

use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// What a tool knows about one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name, with `:arch` where it was asked for so.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// Whether it is kept at its version.
    pub held: bool,
}

/// Whether a package is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Installed, in this version.
    Installed(String),
    /// Removed, but its configuration is there.
    Removed,
    /// Nothing of it is there.
    Purged,
}

impl Package {
    /// One that is not there.
    pub fn absent(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            status: Status::Purged,
            held: false,
        }
    }
}

/// What is to be done about a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
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
pub struct Outdated {
    /// Its name.
    pub name: String,
    /// The version that is there.
    pub installed: String,
    /// The version that could be.
    pub newest: String,
}

/// A way to look packages up and to change them.
pub trait Packages: Sync {
    /// What is known about one package.
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError>;

    /// The newest version that could be installed; `None` when nobody offers the package.
    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError>;

    /// Does it.
    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError>;

    /// Every package that is known on the machine.
    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError>;

    /// What an upgrade of the whole machine would bring to newer versions, by the package lists that are there; sorted by
    /// name. What is held is not among them. The resource only names whom an error concerns.
    fn outdated(&self, _: &Cx<'_>, resource: &Resource) -> Result<Vec<Outdated>, EngineError> {
        let problem = "this tool does not tell what is outdated";
        Err(EngineError::failed(resource, problem))
    }

    /// Gets the package lists anew, and returns what the tool said. A source that does not answer is a failure.
    fn refresh(&self, _: &Cx<'_>, resource: &Resource) -> Result<String, EngineError> {
        let problem = "this tool has no package lists of its own";
        Err(EngineError::failed(resource, problem))
    }
}

/// The names of all tools.
pub const PROVIDERS: &[&str] = &[
    "apt", "dpkg", "dnf", "yum", "zypper", "pip", "pip3", "gem", "npm",
];

static PIP: pip::Pip = pip::Pip(&["pip3", "pip"]);
static PIP3: pip::Pip = pip::Pip(&["pip3"]);

/// The tool that the resource names, or else the one that the machine is made of; with its name.
pub fn choose(
    cx: &Cx<'_>,
    resource: &Resource,
) -> Result<(&'static str, &'static dyn Packages), EngineError> {
    let named = resource.text("provider");
    let word = match named.and_then(|name| PROVIDERS.iter().find(|known| **known == name)) {
        Some(known) => known,
        None => native(cx, resource)?,
    };
    let provider: &'static dyn Packages = match word {
        "dpkg" => &dpkg::Dpkg,
        "dnf" => &rpm::Rpm::Dnf,
        "yum" => &rpm::Rpm::Yum,
        "zypper" => &rpm::Rpm::Zypper,
        "pip" => &PIP,
        "pip3" => &PIP3,
        "gem" => &gem::Gem,
        "npm" => &npm::Npm,
        _ => &apt::Apt,
    };
    Ok((word, provider))
}

/// The tool of the machine's own package system; apt, which says what it misses, where there is none.
fn native(cx: &Cx<'_>, resource: &Resource) -> Result<&'static str, EngineError> {
    for (path, word) in [
        (dpkg::DATABASE, "apt"),
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
