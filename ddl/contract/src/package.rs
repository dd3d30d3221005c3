//! The agent `package`: the packages of the machine.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a package, with the architecture of Debian's.
const NAME_PATTERN: &str = "^[a-zA-Z0-9][a-zA-Z0-9+._:-]*$";

/// Installs, updates and removes packages, and reports installed and outdated ones.
#[derive(Debug, JsonSchema)]
pub struct PackageAgent;

impl AgentContract for PackageAgent {
    const NAME: &'static str = "package";
    const TIMEOUT: u64 = 600;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<PackageInstall>()
            .add::<PackageUpdate>()
            .add::<PackageUninstall>()
            .add::<PackagePurge>()
            .add::<PackageStatus>()
            .add::<PackageCheckupdates>()
            .add::<PackageRefresh>();
    }
}

/// What the actions that change it have in common.
fn describe_change(properties: ActionProperties) -> ActionProperties {
    properties.idempotent().display_failed().summary("ensure").change_summary()
}

/// Install a package, unless it is installed.
#[derive(Debug, JsonSchema)]
pub struct PackageInstall;

impl Action for PackageInstall {
    type Agent = PackageAgent;
    const NAME: &'static str = "install";
    type Input = PackageInstallInput;
    type Output = PackageChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::root_equivalent())
            .examples(include_str!("package/install.json"))
    }
}

/// Inputs of `install`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageInstallInput {
    /// The package to install.
    #[schemars(title = "Package Name", length(max = 90), regex(pattern = NAME_PATTERN))]
    pub package: String,
    /// Install exactly this version, even if it is older; default: the newest version if the package is not installed.
    ///
    /// A leading digit is required, because other values of `ensure`, such as `absent`, have a meaning in the engine.
    #[schemars(
        title = "Package Version",
        length(max = 90),
        regex(pattern = "^[0-9][a-zA-Z0-9.+:~_-]*$")
    )]
    pub version: Option<String>,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Update an installed package to the newest version; fails if it is not installed.
#[derive(Debug, JsonSchema)]
pub struct PackageUpdate;

impl Action for PackageUpdate {
    type Agent = PackageAgent;
    const NAME: &'static str = "update";
    type Input = PackageChangeInput;
    type Output = PackageChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::change())
            .describe_input("package", "The package to update")
            .examples(include_str!("package/update.json"))
    }
}

/// Remove a package, but keep its configuration.
#[derive(Debug, JsonSchema)]
pub struct PackageUninstall;

impl Action for PackageUninstall {
    type Agent = PackageAgent;
    const NAME: &'static str = "uninstall";
    type Input = PackageChangeInput;
    type Output = PackageChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::root_equivalent())
            .examples(include_str!("package/uninstall.json"))
    }
}

/// Remove a package and its configuration.
#[derive(Debug, JsonSchema)]
pub struct PackagePurge;

impl Action for PackagePurge {
    type Agent = PackageAgent;
    const NAME: &'static str = "purge";
    type Input = PackageChangeInput;
    type Output = PackageChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::root_equivalent())
            .examples(include_str!("package/purge.json"))
    }
}

/// Report whether a package is installed, and its version.
#[derive(Debug, JsonSchema)]
pub struct PackageStatus;

impl Action for PackageStatus {
    type Agent = PackageAgent;
    const NAME: &'static str = "status";
    type Input = PackageNameInput;
    type Output = PackageStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("ensure").examples(include_str!("package/status.json"))
    }
}

/// Inputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageNameInput {
    /// The package to examine.
    #[schemars(title = "Package Name", length(max = 90), regex(pattern = NAME_PATTERN))]
    pub package: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageStatusOutput {
    /// The name of the package.
    pub name: String,
    /// The installed version, or `absent`, or `purged` if the configuration is removed too.
    pub ensure: String,
    /// `hold` if the package is held at its version, else `none`.
    pub mark: String,
}

/// List packages with newer versions, by the package lists on the node.
#[derive(Debug, JsonSchema)]
pub struct PackageCheckupdates;

impl Action for PackageCheckupdates {
    type Agent = PackageAgent;
    const NAME: &'static str = "checkupdates";
    type Input = EmptyInput;
    type Output = PackageCheckupdatesOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("count")
            .examples(include_str!("package/checkupdates.json"))
    }
}

/// Outputs of `checkupdates`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageCheckupdatesOutput {
    /// The package manager.
    pub package_manager: String,
    /// Name, installed version and newest version of each package that an upgrade would change.
    pub outdated_packages: Vec<OutdatedPackageRow>,
    /// Number of outdated packages.
    pub count: usize,
}

/// A package with an available update. The field names are those of the `MCollective` agent `package`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutdatedPackageRow {
    /// The name of the package.
    pub package: String,
    /// The installed version.
    pub installed: String,
    /// The newest available version.
    pub version: String,
}

/// Update the package lists; fails if a source does not respond.
#[derive(Debug, JsonSchema)]
pub struct PackageRefresh;

impl Action for PackageRefresh {
    type Agent = PackageAgent;
    const NAME: &'static str = "refresh";
    type Input = PackageRefreshInput;
    type Output = PackageRefreshOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .display_failed()
            .examples(include_str!("package/refresh.json"))
    }
}

/// Inputs of `refresh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageRefreshInput {
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `refresh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageRefreshOutput {
    /// The output of the package manager.
    pub output: String,
}

/// Inputs of the actions that change an installed package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageChangeInput {
    /// The package to remove.
    #[schemars(title = "Package Name", length(max = 90), regex(pattern = NAME_PATTERN))]
    pub package: String,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// The result of a change, or with `noop` what it would be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageChangeOutput {
    /// The name of the package.
    pub name: String,
    /// The installed version, or `absent`, or `purged` if the configuration was removed too.
    pub ensure: String,
    /// The previous value of `ensure`.
    pub previous: String,
    /// Whether anything changed.
    pub changed: bool,
}
