//! The agent `compiler`: the service that compiles catalogs ahead.

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod content;
mod releases;
mod rows;

pub use content::{
    CompilerCollect, CompilerCollectOutput, CompilerContent, CompilerContentInput,
    CompilerContentOutput, CompilerFileRow, CompilerVerify, CompilerVerifyOutput, MAX_LISTED_FILES,
};
pub use releases::{
    CompilerDiff, CompilerDiffGroup, CompilerDiffInput, CompilerDiffOutput, CompilerDiffRow,
    CompilerDraft, CompilerDraftInput, CompilerDraftOutput, CompilerPromote, CompilerPromoteInput,
    CompilerPromoteOutput, CompilerPublish, CompilerPublishInput, CompilerRelease,
    CompilerReleaseInput, CompilerReleaseOutput, CompilerReleaseRow, CompilerReleases,
    CompilerReleasesOutput,
};
pub use rows::{
    CompilerEnvironmentRow, CompilerInputRow, CompilerMessageRow, CompilerNodeRow, CompilerReadRow,
};

/// The name of a node.
const NODE_PATTERN: &str = "^[a-zA-Z0-9_.-]+$";
/// The name of an environment.
const ENVIRONMENT_PATTERN: &str = r"\A[a-z0-9_]+\z";

/// Most nodes in one answer.
pub const MAX_LISTED_NODES: usize = 1000;
/// Most nodes of one check.
pub const MAX_CHECKED_NODES: usize = 100;

/// The service that compiles catalogs ahead.
#[derive(Debug, JsonSchema)]
pub struct CompilerAgent;

impl AgentContract for CompilerAgent {
    const NAME: &'static str = "compiler";
    const TIMEOUT: u64 = 30;
    const DEFAULT_ACTION: Option<&'static str> = Some("environments");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<CompilerCompile>()
            .add::<CompilerAnnounce>()
            .add::<CompilerCheck>()
            .add::<CompilerList>()
            .add::<CompilerShow>()
            .add::<CompilerCatalog>()
            .add::<CompilerEnvironments>()
            .add::<CompilerDraft>()
            .add::<CompilerPublish>()
            .add::<CompilerReleases>()
            .add::<CompilerRelease>()
            .add::<CompilerDiff>()
            .add::<CompilerPromote>()
            .add::<CompilerContent>()
            .add::<CompilerVerify>()
            .add::<CompilerCollect>();
    }
}

/// Compile nodes again with every fact altered that their compiles did not read, and compare the catalogs. Nothing is stored.
#[derive(Debug, JsonSchema)]
pub struct CompilerCheck;

impl Action for CompilerCheck {
    type Agent = CompilerAgent;
    const NAME: &'static str = "check";
    type Input = CompilerCheckInput;
    type Output = CompilerCheckOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(600).examples(include_str!("compiler/check.json"))
    }
}

/// Inputs of `check`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerCheckInput {
    /// Which nodes, as JSON of a filter; all if absent. At most 100.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// Outputs of `check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerCheckOutput {
    /// The nodes that were checked.
    pub nodes: Vec<CompilerCheckRow>,
    /// Nodes that belong to no environment, or whose code is not there yet.
    pub impossible: Vec<String>,
}

/// The check of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerCheckRow {
    /// The node.
    pub node: String,
    /// Number of facts that were not read, and altered.
    pub altered: usize,
    /// Resources that depend on facts that were not recorded; at most 50.
    pub missed: Vec<NodeText>,
    /// Resources that differ without any change: they depend on the time, a random number or a program; at most 50.
    pub unsteady: Vec<NodeText>,
    /// Why there is no catalog, or none with the altered facts.
    pub failure: Option<NodeText>,
}

/// Compile nodes now, before others that wait.
#[derive(Debug, JsonSchema)]
pub struct CompilerCompile;

impl Action for CompilerCompile {
    type Agent = CompilerAgent;
    const NAME: &'static str = "compile";
    type Input = CompilerCompileInput;
    type Output = CompilerCompileOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("compiler/compile.json"))
    }
}

/// Inputs of `compile`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerCompileInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// Outputs of `compile`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerCompileOutput {
    /// Number of nodes that match.
    pub nodes: usize,
    /// How many of them did not wait already.
    pub added: usize,
    /// Nodes that belong to no environment, or whose environment has no code yet; at most 100.
    #[schemars(title = "Not possible")]
    pub impossible: Vec<String>,
}

/// Look for newer code of environments, or compile this commit.
#[derive(Debug, JsonSchema)]
pub struct CompilerAnnounce;

impl Action for CompilerAnnounce {
    type Agent = CompilerAgent;
    const NAME: &'static str = "announce";
    type Input = CompilerAnnounceInput;
    type Output = CompilerAnnounceOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("compiler/announce.json"))
    }
}

/// Inputs of `announce`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerAnnounceInput {
    /// The environment.
    #[schemars(length(max = 64), regex(pattern = ENVIRONMENT_PATTERN))]
    pub environment: String,
    /// A commit, branch or tag to compile until another one is announced; the newest of the environment's branch, and later ones, if absent.
    #[schemars(length(max = 200), regex(pattern = r"\A[A-Za-z0-9._/][A-Za-z0-9._/-]*\z"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Outputs of `announce`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerAnnounceOutput {
    /// The commit, or the digest of a directory.
    pub code: NodeText,
    /// Whether it is another one than before.
    pub changed: bool,
}

/// List what was compiled, by node.
#[derive(Debug, JsonSchema)]
pub struct CompilerList;

impl Action for CompilerList {
    type Agent = CompilerAgent;
    const NAME: &'static str = "list";
    type Input = CompilerListInput;
    type Output = CompilerListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("compiler/list.json"))
    }
}

/// Inputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerListInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only nodes whose last compile failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Only nodes after this one, by name: the next page.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerListOutput {
    /// The nodes, by name.
    pub nodes: Vec<CompilerNodeRow>,
    /// Number of nodes that match.
    pub total: usize,
    /// The last node of this page, if there are more.
    pub next: Option<String>,
}

/// Show the last compile of a node: why it was compiled, and what it read.
#[derive(Debug, JsonSchema)]
pub struct CompilerShow;

impl Action for CompilerShow {
    type Agent = CompilerAgent;
    const NAME: &'static str = "show";
    type Input = CompilerNodeInput;
    type Output = CompilerShowOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("compiler/show.json"))
    }
}

/// Inputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerNodeInput {
    /// The node.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    pub node: String,
}

/// Outputs of `show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerShowOutput {
    /// The node, as in a list.
    pub node: CompilerNodeRow,
    /// Why it was compiled last.
    pub cause: NodeText,
    /// How long that took, in milliseconds.
    pub milliseconds: u64,
    /// What the compile read, and what of it is different now.
    pub inputs: Vec<CompilerInputRow>,
    /// What it read that cannot be compared, so that the catalog is not reproducible.
    pub externals: Vec<CompilerReadRow>,
    /// Of which values it read everything: then all facts count but those that always change.
    pub wholes: Vec<CompilerReadRow>,
    /// Warnings of Puppet; at most 50.
    pub warnings: Vec<CompilerMessageRow>,
}

/// Return a catalog of a node, without its secrets.
#[derive(Debug, JsonSchema)]
pub struct CompilerCatalog;

impl Action for CompilerCatalog {
    type Agent = CompilerAgent;
    const NAME: &'static str = "catalog";
    type Input = CompilerCatalogInput;
    type Output = CompilerCatalogOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("compiler/catalog.json"))
    }
}

/// Inputs of `catalog`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerCatalogInput {
    /// The node.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    pub node: String,
    /// The address of the catalog; the newest if absent.
    #[schemars(length(max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Outputs of `catalog`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerCatalogOutput {
    /// The address.
    pub address: String,
    /// The environment.
    pub environment: NodeText,
    /// The commit, or the digest of a directory.
    pub code: NodeText,
    /// When it was compiled, in milliseconds since the epoch.
    #[schemars(title = "Compiled at")]
    pub compiled_at: u64,
    /// The catalog as JSON, compressed (DEFLATE) and in base64. Secrets are digests.
    pub catalog: String,
}

/// List the environments, and how many nodes of each are compiled.
#[derive(Debug, JsonSchema)]
pub struct CompilerEnvironments;

impl Action for CompilerEnvironments {
    type Agent = CompilerAgent;
    const NAME: &'static str = "environments";
    type Input = EmptyInput;
    type Output = CompilerEnvironmentsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("compiler/environments.json"))
    }
}

/// Outputs of `environments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerEnvironmentsOutput {
    /// The environments, by name.
    pub environments: Vec<CompilerEnvironmentRow>,
    /// Number of nodes that belong to none.
    #[schemars(title = "Without environment")]
    pub without: usize,
}
