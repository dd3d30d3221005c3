//! The agent `release`: the released catalog of a node.

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::CatalogRunOutcome;

/// A signed release or promotion as text: base64url.
const SIGNED_PATTERN: &str = r"\A[A-Za-z0-9_-]+\z";

/// Applies the catalog that was released for the node, and no other.
#[derive(Debug, JsonSchema)]
pub struct ReleaseAgent;

impl AgentContract for ReleaseAgent {
    const NAME: &'static str = "release";
    const TIMEOUT: u64 = 600;
    const DEFAULT_ACTION: Option<&'static str> = Some("status");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ReleasePromote>()
            .add::<ReleasePlan>()
            .add::<ReleaseApply>()
            .add::<ReleaseStatus>()
            .add::<ReleaseHeld>();
    }
}

/// Take the catalog of this release from now on, and apply it.
#[derive(Debug, JsonSchema)]
pub struct ReleasePromote;

impl Action for ReleasePromote {
    type Agent = ReleaseAgent;
    const NAME: &'static str = "promote";
    type Input = ReleasePromoteInput;
    type Output = ReleaseRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .display_failed()
            .summary("status")
            .examples(include_str!("release/promote.json"))
    }
}

/// Inputs of `promote`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasePromoteInput {
    /// The promotion, signed by the caller.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub promotion: String,
    /// The release that it names, signed by its author.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub release: String,
    /// Whether to apply the catalog at once; yes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<bool>,
}

/// Report what the catalog of a release would change. Changes nothing, and needs no promotion.
#[derive(Debug, JsonSchema)]
pub struct ReleasePlan;

impl Action for ReleasePlan {
    type Agent = ReleaseAgent;
    const NAME: &'static str = "plan";
    type Input = ReleasePlanInput;
    type Output = ReleaseRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("status").examples(include_str!("release/plan.json"))
    }
}

/// Inputs of `plan`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasePlanInput {
    /// The release, signed by its author.
    #[schemars(length(max = 131_072), regex(pattern = SIGNED_PATTERN))]
    pub release: String,
}

/// Apply the released catalog now.
#[derive(Debug, JsonSchema)]
pub struct ReleaseApply;

impl Action for ReleaseApply {
    type Agent = ReleaseAgent;
    const NAME: &'static str = "apply";
    type Input = ReleaseApplyInput;
    type Output = ReleaseRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .display_failed()
            .summary("status")
            .examples(include_str!("release/apply.json"))
    }
}

/// Inputs of `apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseApplyInput {
    /// Report what would change, but change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
}

/// Outputs of `promote`, `plan` and `apply`. If the release has no catalog for the node, the status is `absent`; of a promotion that applies nothing,
/// `promoted`. There was no run then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseRunOutcome {
    /// The release.
    pub release: String,
    /// The address of the catalog; absent if the release has none for the node.
    pub catalog: Option<String>,
    /// Whether the run only reported what it would change.
    pub noop: bool,
    /// The run.
    #[serde(flatten)]
    pub run: CatalogRunOutcome,
}

/// Show which release the node has, and how its last run ended.
#[derive(Debug, JsonSchema)]
pub struct ReleaseStatus;

impl Action for ReleaseStatus {
    type Agent = ReleaseAgent;
    const NAME: &'static str = "status";
    type Input = EmptyInput;
    type Output = ReleaseStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("release").examples(include_str!("release/status.json"))
    }
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReleaseStatusOutput {
    /// The release; absent if none was promoted to the node.
    pub release: Option<String>,
    /// Its environment.
    pub environment: Option<NodeText>,
    /// Its code.
    pub code: Option<NodeText>,
    /// The address of the node's catalog.
    pub catalog: Option<String>,
    /// Who promoted it.
    #[schemars(title = "Promoted by")]
    pub promoted_by: Option<String>,
    /// When it was promoted, in milliseconds since the epoch.
    #[schemars(title = "Promoted at")]
    pub promoted_at: Option<u64>,
    /// When the node applies it by itself: `never`, `always`, or windows.
    #[schemars(title = "Applies by itself")]
    pub applies: Option<NodeText>,
    /// The release before, whose catalog the node still has.
    pub previous: Option<String>,
    /// The end of the last run: `changed`, `unchanged` or `failed`.
    #[schemars(title = "Last run")]
    pub last_status: Option<NodeText>,
    /// Whether that run only reported what it would change.
    #[schemars(title = "Last run was noop")]
    pub last_noop: Option<bool>,
    /// Number of resources that it changed, or would have changed.
    #[schemars(title = "Changed by it")]
    pub last_changed: Option<u64>,
    /// When it ended, in milliseconds since the epoch.
    #[schemars(title = "Last run at")]
    pub last_run_at: Option<u64>,
    /// Why the node does not follow its latest promotion.
    pub problem: Option<NodeText>,
}

/// List the releases whose catalogs the node has, and can return to without a broker.
#[derive(Debug, JsonSchema)]
pub struct ReleaseHeld;

impl Action for ReleaseHeld {
    type Agent = ReleaseAgent;
    const NAME: &'static str = "held";
    type Input = ReleaseHeldInput;
    type Output = ReleaseHeldOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("release/held.json"))
    }
}

/// Inputs of `held`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseHeldInput {
    /// The release whose text is asked for; none if absent.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Outputs of `held`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReleaseHeldOutput {
    /// The releases, the latest promotion first; at most ten, with at most two different catalogs.
    pub releases: Vec<ReleaseHeldRow>,
    /// The release that was asked for, as its author signed it; absent if the node does not have it.
    pub release: Option<String>,
}

/// A release that a node has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReleaseHeldRow {
    /// Its name.
    pub name: String,
    /// Its environment.
    pub environment: NodeText,
    /// Its code.
    pub code: NodeText,
    /// The address of the node's catalog in it.
    pub catalog: String,
    /// Who promoted it.
    pub promoted_by: String,
    /// When it was promoted, in milliseconds since the epoch.
    pub promoted_at: u64,
}
