//! The agent `ledger`: refreshes of resources that are still owed on the node.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::CatalogRunOutcome;

/// Manages pending refreshes of resources, which a run could not execute.
#[derive(Debug, JsonSchema)]
pub struct LedgerAgent;

impl AgentContract for LedgerAgent {
    const NAME: &'static str = "ledger";
    const TIMEOUT: u64 = 600;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<LedgerList>().add::<LedgerReplay>().add::<LedgerDrop>();
    }
}

/// List the pending refreshes.
#[derive(Debug, JsonSchema)]
pub struct LedgerList;

impl Action for LedgerList {
    type Agent = LedgerAgent;
    const NAME: &'static str = "list";
    type Input = EmptyInput;
    type Output = LedgerListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("pending").examples(include_str!("ledger/list.json"))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerListOutput {
    /// Number of pending refreshes.
    #[schemars(title = "Pending Refreshes")]
    pub pending: usize,
    /// Each with its number, target, source, time (seconds since the epoch), age in seconds, attempts, reason and run, and whether its source was reverted or its target redefined since; at most 1000.
    #[schemars(title = "Owed")]
    pub debts: Vec<OwedRefreshRow>,
}

/// A pending refresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwedRefreshRow {
    /// Its number.
    pub id: u64,
    /// The resource that is to be refreshed.
    pub target: String,
    /// The resource that notified it.
    pub source: String,
    /// When, in seconds since the epoch.
    pub since: i64,
    /// Seconds since then.
    pub age: i64,
    /// Whether the source is known to have changed; false if the run died before that was known.
    pub certain: bool,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it is pending, if that is known.
    pub reason: Option<String>,
    /// The run that owes it.
    pub run: String,
    /// Whether the source is again as it was before the change.
    pub source_reverted: bool,
    /// Whether the target has another definition than at the time of the change.
    pub target_changed: bool,
}

/// Execute the pending refreshes, with the catalog that was applied last.
#[derive(Debug, JsonSchema)]
pub struct LedgerReplay;

impl Action for LedgerReplay {
    type Agent = LedgerAgent;
    const NAME: &'static str = "replay";
    type Input = LedgerReplayInput;
    type Output = CatalogRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("status")
            .examples(include_str!("ledger/replay.json"))
    }
}

/// Inputs of `replay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReplayInput {
    /// Only for this resource, such as Exec\[reload\].
    #[schemars(length(max = 4096))]
    pub target: Option<String>,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Discard the pending refreshes of a resource, after they were done by hand.
#[derive(Debug, JsonSchema)]
pub struct LedgerDrop;

impl Action for LedgerDrop {
    type Agent = LedgerAgent;
    const NAME: &'static str = "drop";
    type Input = LedgerDropInput;
    type Output = LedgerDropOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("dropped")
            .change_summary()
            .examples(include_str!("ledger/drop.json"))
    }
}

/// Inputs of `drop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerDropInput {
    /// The resource, such as Exec\[reload\], or `all`.
    #[schemars(length(max = 4096))]
    pub target: String,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `drop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerDropOutput {
    /// Number of discarded refreshes.
    pub dropped: usize,
    /// Number of remaining refreshes.
    #[schemars(title = "Pending Refreshes")]
    pub pending: usize,
    /// Whether refreshes were discarded.
    pub changed: bool,
}
