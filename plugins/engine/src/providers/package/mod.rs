//! The tools that install packages, behind one trait.

pub mod apt;
pub mod dpkg;
pub(crate) mod memo;
mod tool;

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
pub trait Packages {
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
    fn outdated(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Outdated>, EngineError>;

    /// Gets the package lists anew, and returns what the tool said. A source that does not answer is a failure.
    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<String, EngineError>;
}
