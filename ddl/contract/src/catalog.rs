//! The agent `catalog`: complete catalogs.

use std::fmt;

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The start of an absolute path.
const PATH_PATTERN: &str = "^/";

/// Applies complete catalogs, as Puppet does, without losing notifications.
#[derive(Debug, JsonSchema)]
pub struct CatalogAgent;

impl AgentContract for CatalogAgent {
    const NAME: &'static str = "catalog";
    const TIMEOUT: u64 = 600;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<CatalogApply>().add::<CatalogPlan>().add::<CatalogLint>();
    }
}

/// Apply a catalog.
#[derive(Debug, JsonSchema)]
pub struct CatalogApply;

impl Action for CatalogApply {
    type Agent = CatalogAgent;
    const NAME: &'static str = "apply";
    type Input = CatalogApplyInput;
    type Output = CatalogRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .summary("status")
            .examples(include_str!("catalog/apply.json"))
    }
}

/// Inputs of `apply`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogApplyInput {
    /// The catalog.
    #[serde(flatten)]
    pub run: CatalogRunInput,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `apply`, `plan` and `replay` of the agent `ledger`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogRunOutcome {
    /// `changed`, `unchanged` or `failed`, as in Puppet's reports.
    pub status: String,
    /// Puppet's detailed exit code: 2 for changes or pending refreshes, 4 for failures, 6 for both.
    pub exit_code: u8,
    /// Number of processed resources.
    pub resources: usize,
    /// Number of changed resources.
    pub changed: usize,
    /// Number of failed resources.
    pub failed: usize,
    /// Number of skipped resources.
    pub skipped: usize,
    /// Number of refreshes that are still pending.
    #[schemars(title = "Pending Refreshes")]
    pub pending: usize,
    /// What changed, would change, or failed: resource, property, status and message; at most 1000.
    pub events: Vec<CatalogRunEvent>,
    /// The id of the run.
    pub run: String,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogRunEvent {
    /// The resource.
    pub resource: String,
    /// The property, if the event is about one.
    pub property: Option<String>,
    /// What happened.
    pub status: String,
    /// The message.
    pub message: String,
}

/// Report what a catalog would change. Changes nothing and runs no command of a resource: what depends on one is reported as not evaluated.
#[derive(Debug, JsonSchema)]
pub struct CatalogPlan;

impl Action for CatalogPlan {
    type Agent = CatalogAgent;
    const NAME: &'static str = "plan";
    type Input = CatalogRunInput;
    type Output = CatalogRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("status").examples(include_str!("catalog/plan.json"))
    }
}

/// Inputs of `plan`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogRunInput {
    /// The content of the catalog: Puppet's JSON, a JSON list of resources, or TOML with \[\[resource\]\] tables.
    #[schemars(length(max = 900_000), extend("x-sensitive" = true))]
    pub catalog: Option<String>,
    /// The path of a catalog file on the node.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub file: Option<String>,
    /// Apply only resources with one of these tags, separated by commas.
    #[schemars(length(max = 1000))]
    pub tags: Option<String>,
    /// Skip resources with one of these tags, separated by commas.
    #[schemars(length(max = 1000))]
    pub skip_tags: Option<String>,
}

/// Omits the catalog, which may contain passwords.
impl fmt::Debug for CatalogRunInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, tags, skip_tags, .. } = self;
        f.debug_struct("CatalogRunInput")
            .field("file", file)
            .field("tags", tags)
            .field("skip_tags", skip_tags)
            .finish_non_exhaustive()
    }
}

/// Report which notifications of a catalog Puppet would lose.
#[derive(Debug, JsonSchema)]
pub struct CatalogLint;

impl Action for CatalogLint {
    type Agent = CatalogAgent;
    const NAME: &'static str = "lint";
    type Input = CatalogLintInput;
    type Output = CatalogLintOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("count").examples(include_str!("catalog/lint.json"))
    }
}

/// Inputs of `lint`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogLintInput {
    /// The content of the catalog: Puppet's JSON, a JSON list of resources, or TOML with \[\[resource\]\] tables.
    #[schemars(length(max = 900_000), extend("x-sensitive" = true))]
    pub catalog: Option<String>,
    /// The path of a catalog file on the node.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub file: Option<String>,
}

/// Omits the catalog, which may contain passwords.
impl fmt::Debug for CatalogLintInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogLintInput").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Outputs of `lint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogLintOutput {
    /// Number of findings.
    #[schemars(title = "Findings")]
    pub count: usize,
    /// Each lost notification, with the reason.
    #[schemars(title = "Found")]
    pub findings: Vec<String>,
}
