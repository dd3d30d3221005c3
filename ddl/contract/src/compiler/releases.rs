//! The actions of the agent `compiler` for releases.

use muster_base::NodeText;
use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CompilerAgent, CompilerNodeRow, ENVIRONMENT_PATTERN};

/// The name of a release.
const RELEASE_PATTERN: &str = r"\A[a-z0-9_-]{1,64}\z";
/// A signed release or promotion as text: base64url.
const SIGNED_PATTERN: &str = r"\A[A-Za-z0-9_-]+\z";

/// Store the list of a new release: the newest catalog of each node whose last compile did not fail.
#[derive(Debug, JsonSchema)]
pub struct CompilerDraft;

impl Action for CompilerDraft {
    type Agent = CompilerAgent;
    const NAME: &'static str = "draft";
    type Input = CompilerDraftInput;
    type Output = CompilerDraftOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("draft.json"))
    }
}

/// Inputs of `draft`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerDraftInput {
    /// The environment.
    #[schemars(length(max = 64), regex(pattern = ENVIRONMENT_PATTERN))]
    pub environment: String,
    /// Which nodes of it, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Whether to store the list although nodes wait for a compile; otherwise it is stored when none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<bool>,
}

/// Outputs of `draft`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerDraftOutput {
    /// The address of the list; absent if it is not stored yet.
    pub list: Option<String>,
    /// The address of the list of the environment's plugins; absent if no module has any.
    pub plugins: Option<String>,
    /// Number of nodes in it.
    pub nodes: usize,
    /// Number of nodes of the environment that match.
    pub total: usize,
    /// The code of the environment; absent until it is there.
    pub code: Option<NodeText>,
    /// A name that no release has.
    pub name: String,
    /// Nodes that are to be compiled with the code and facts of now.
    pub waiting: usize,
    /// Number of nodes whose last compile failed. They are not in the list, and keep what they have.
    #[schemars(title = "Failed")]
    pub failed_total: usize,
    /// These nodes with their errors; at most 100.
    #[schemars(title = "Failed nodes")]
    pub failed: Vec<CompilerNodeRow>,
}

/// Store a release that its author has signed. A name is given once.
#[derive(Debug, JsonSchema)]
pub struct CompilerPublish;

impl Action for CompilerPublish {
    type Agent = CompilerAgent;
    const NAME: &'static str = "publish";
    type Input = CompilerPublishInput;
    type Output = CompilerReleaseRow;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("publish.json"))
    }
}

/// Inputs of `publish`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerPublishInput {
    /// The release, signed by the caller.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub release: String,
}

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerReleaseRow {
    /// The name.
    pub name: String,
    /// The environment.
    pub environment: NodeText,
    /// The code.
    pub code: NodeText,
    /// Who made it.
    pub author: String,
    /// When, in milliseconds since the epoch.
    #[schemars(title = "Created at")]
    pub created_at: u64,
    /// Number of nodes.
    pub nodes: usize,
}

/// List the releases, the newest first.
#[derive(Debug, JsonSchema)]
pub struct CompilerReleases;

impl Action for CompilerReleases {
    type Agent = CompilerAgent;
    const NAME: &'static str = "releases";
    type Input = EmptyInput;
    type Output = CompilerReleasesOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("releases.json"))
    }
}

/// Outputs of `releases`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerReleasesOutput {
    /// The releases; at most 500.
    pub releases: Vec<CompilerReleaseRow>,
    /// Number of all releases.
    pub total: usize,
}

/// Return a release as its author signed it.
#[derive(Debug, JsonSchema)]
pub struct CompilerRelease;

impl Action for CompilerRelease {
    type Agent = CompilerAgent;
    const NAME: &'static str = "release";
    type Input = CompilerReleaseInput;
    type Output = CompilerReleaseOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("release.json"))
    }
}

/// Inputs of `release`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerReleaseInput {
    /// The name.
    #[schemars(length(max = 64), regex(pattern = RELEASE_PATTERN))]
    pub name: String,
}

/// Outputs of `release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerReleaseOutput {
    /// The signed release: base64url.
    pub release: String,
}

/// Compare a release with another one, or with what each node has. Equal changes of several nodes are one group.
#[derive(Debug, JsonSchema)]
pub struct CompilerDiff;

impl Action for CompilerDiff {
    type Agent = CompilerAgent;
    const NAME: &'static str = "diff";
    type Input = CompilerDiffInput;
    type Output = CompilerDiffOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(120).examples(include_str!("diff.json"))
    }
}

/// Inputs of `diff`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerDiffInput {
    /// The release.
    #[schemars(length(max = 64), regex(pattern = RELEASE_PATTERN))]
    pub name: String,
    /// The release to compare it with; if absent, the catalog that each node says it has.
    #[schemars(length(max = 64), regex(pattern = RELEASE_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Outputs of `diff`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerDiffOutput {
    /// Nodes with equal changes, the largest group first; at most 100 groups.
    pub groups: Vec<CompilerDiffGroup>,
    /// Number of further groups.
    #[schemars(title = "Further groups")]
    pub more: usize,
    /// Number of nodes for which nothing changes.
    pub unchanged: usize,
    /// Number of nodes that have no catalog to compare with.
    #[schemars(title = "New nodes")]
    pub added: usize,
    /// Number of nodes that are only in the earlier release.
    #[schemars(title = "Removed nodes")]
    pub removed: usize,
}

/// Nodes with equal changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerDiffGroup {
    /// Number of nodes.
    pub nodes: usize,
    /// Their names; at most 20.
    pub names: Vec<String>,
    /// What changes, by resource; at most 200.
    pub changes: Vec<CompilerDiffRow>,
    /// Number of further changes.
    pub more: usize,
}

/// A change of a resource, or of one of its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerDiffRow {
    /// The resource: `File[/etc/motd]`.
    pub resource: NodeText,
    /// `added`, `removed` or `changed`.
    pub change: NodeText,
    /// The parameter, if the resource is in both.
    pub parameter: Option<NodeText>,
    /// The value before; absent if there was none, if it is secret, or if `diff` shows it.
    pub before: Option<NodeText>,
    /// The value after.
    pub after: Option<NodeText>,
    /// The lines of a text that differ, as a unified diff.
    pub diff: Option<NodeText>,
}

/// Store a promotion for all nodes that match, so that those that were away find it.
#[derive(Debug, JsonSchema)]
pub struct CompilerPromote;

impl Action for CompilerPromote {
    type Agent = CompilerAgent;
    const NAME: &'static str = "promote";
    type Input = CompilerPromoteInput;
    type Output = CompilerPromoteOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().timeout(60).examples(include_str!("promote.json"))
    }
}

/// Inputs of `promote`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerPromoteInput {
    /// The promotion, signed by the caller.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub promotion: String,
    /// The release that it names, signed by its author.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub release: String,
}

/// Outputs of `promote`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerPromoteOutput {
    /// Number of nodes of the release that match.
    pub nodes: usize,
    /// For how many of them it was stored.
    pub stored: usize,
    /// How many of them had a later promotion.
    pub later: usize,
}
