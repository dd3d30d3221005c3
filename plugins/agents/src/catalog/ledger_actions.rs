//! The agent `ledger` and the data source `ledger()`: the refreshes that are owed on the node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::since_epoch;
use muster_api::system::System;
use muster_api::{ActionError, BlockingContext, EmptyInput, StateSource};
use muster_contract::catalog::CatalogRunOutcome;
use muster_contract::ledger::{
    LedgerDropInput, LedgerDropOutput, LedgerListOutput, LedgerReplayInput, OwedRefreshRow,
};
use muster_engine::ledger::{OwedRefresh, RefreshCertainty, RefreshLedger};
use muster_engine::lock::CatalogRunLock;
use muster_engine::run::RunOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog::options::Options;
use crate::catalog::runs::{self, CatalogSource, open_state_dir};

/// Maximum number of refreshes in one reply.
const MAX_LISTED_REFRESHES: usize = 1000;

/// The number of owed refreshes, and the age of the oldest.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LedgerDataOutput {
    pending: usize,
    oldest: Option<i64>,
    targets: String,
}

pub(crate) fn list_owed(
    options: &Arc<Options>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<LedgerListOutput, ActionError> {
    let refreshes = read_owed_refreshes(options)?;
    let now = epoch_seconds(cx);
    let row = |refresh: OwedRefresh| OwedRefreshRow {
        id: refresh.id,
        target: refresh.target,
        source: refresh.source,
        since: refresh.since,
        age: now.saturating_sub(refresh.since).max(0),
        certain: refresh.certainty == RefreshCertainty::Pending,
        attempts: refresh.attempts,
        reason: refresh.reason,
        run: refresh.run,
        source_reverted: refresh.source_reverted,
        target_changed: refresh.target_changed,
    };
    Ok(LedgerListOutput {
        pending: refreshes.len(),
        debts: refreshes.into_iter().take(MAX_LISTED_REFRESHES).map(row).collect(),
    })
}

/// Makes the owed refreshes now, with the catalog of the last run that began, whether it ended or not. Only the targets are evaluated. Noop,
/// schedules and failures apply to them as in any run. A refresh can notify other resources; their refreshes follow. Fails if one of these refreshes is still owed.
pub(crate) fn replay_owed(
    options: &Arc<Options>,
    cx: &BlockingContext,
    LedgerReplayInput { target, noop }: LedgerReplayInput,
) -> Result<CatalogRunOutcome, ActionError> {
    let owed = read_owed_refreshes(options)?.into_iter().map(|refresh| refresh.target);
    let mut only: BTreeSet<String> =
        owed.filter(|owed| target.as_ref().is_none_or(|target| target == owed)).collect();
    if only.is_empty() {
        return Err(ActionError::failed("no matching refresh is pending"));
    }
    let is_noop = noop == Some(true);
    let mut attempted = BTreeSet::new();
    let mut total: Option<CatalogRunOutcome> = None;
    while !only.is_empty() {
        attempted.append(&mut only.clone());
        let run_options = RunOptions { only: only.clone(), noop: is_noop, ..RunOptions::default() };
        let outcome = runs::apply_catalog(cx, options, CatalogSource::Stored, run_options)?;
        only = read_owed_refreshes(options)?
            .into_iter()
            .filter(|owed| only.contains(&owed.source) && !attempted.contains(&owed.target))
            .map(|owed| owed.target)
            .collect();
        total = Some(match total {
            Some(earlier) => runs::add_outcome(earlier, outcome),
            None => outcome,
        });
    }
    let outcome = total.ok_or_else(|| ActionError::failed("no matching refresh is pending"))?;
    let mut owed = read_owed_refreshes(options)?;
    owed.retain(|refresh| attempted.contains(&refresh.target));
    // Without a change, all of them are still owed.
    if owed.is_empty() || is_noop {
        return Ok(outcome);
    }
    Err(ActionError::failed(describe_owed(&owed)).with_output(&outcome))
}

/// The refreshes that are still owed, with their reasons.
fn describe_owed(owed: &[OwedRefresh]) -> String {
    let text = |refresh: &OwedRefresh| {
        let reason = refresh.reason.as_deref().unwrap_or("reason not known");
        format!("{}: {reason}", refresh.target)
    };
    let listed: BTreeSet<String> = owed.iter().map(text).collect();
    let texts: Vec<&str> = listed.iter().take(5).map(String::as_str).collect();
    let more = listed.len().saturating_sub(texts.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("refreshes are still pending: {}{more}", texts.join("; "))
}

/// Removes owed refreshes, for targets that were refreshed by other means. Takes the run lock, because a running engine writes the same file.
pub(crate) fn drop_owed(
    options: &Arc<Options>,
    _: &BlockingContext,
    LedgerDropInput { target, noop }: LedgerDropInput,
) -> Result<LedgerDropOutput, ActionError> {
    let state = open_state_dir(options)?;
    let lock_timeout = Duration::from_secs(options.lock_wait);
    let _run_lock =
        CatalogRunLock::acquire(&state, &[], lock_timeout).map_err(ActionError::from_cause)?;
    let mut ledger = RefreshLedger::open(&state).map_err(ActionError::from_cause)?;
    let ids: Vec<u64> = ledger
        .owed_refreshes()
        .filter(|refresh| target == "all" || refresh.target == target)
        .map(|refresh| refresh.id)
        .collect();
    if ids.is_empty() {
        return Err(ActionError::failed(format!("no pending refresh matches `{target}`")));
    }
    if noop != Some(true) {
        ledger.remove_owed(&ids).map_err(ActionError::from_cause)?;
    }
    let pending = ledger.owed_refreshes().count();
    Ok(LedgerDropOutput { dropped: ids.len(), pending, changed: true })
}

pub(crate) fn summarise_owed(
    options: &Arc<Options>,
    cx: &BlockingContext,
    _: &str,
) -> Result<LedgerDataOutput, ActionError> {
    let refreshes = read_owed_refreshes(options)?;
    let now = epoch_seconds(cx);
    let targets = refreshes.iter().map(|refresh| refresh.target.as_str());
    let targets: BTreeSet<&str> = targets.collect();
    Ok(LedgerDataOutput {
        pending: refreshes.len(),
        oldest: refreshes.iter().map(|refresh| now - refresh.since).max(),
        targets: Vec::from_iter(targets).join(", "),
    })
}

/// What the node's record says of the ledger: counts only.
#[derive(Debug)]
pub(crate) struct LedgerStateSource(pub(crate) Arc<Options>);

impl StateSource for LedgerStateSource {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn read_state(&self, _: &dyn System) -> Option<Map<String, Value>> {
        // The directory exists once the engine or Puppet's wrapper has worked.
        if !self.0.state_dir.exists() {
            return None;
        }
        let refreshes = read_owed_refreshes(&self.0).ok()?;
        let targets: BTreeSet<&str> =
            refreshes.iter().map(|refresh| refresh.target.as_str()).collect();
        let uncertain = refreshes
            .iter()
            .filter(|refresh| refresh.certainty != RefreshCertainty::Pending)
            .count();
        let mut state = Map::from_iter([
            ("pending".to_owned(), json!(refreshes.len())),
            ("targets".to_owned(), json!(targets.len())),
            ("uncertain".to_owned(), json!(uncertain)),
        ]);
        let oldest = refreshes.iter().map(|refresh| refresh.since).min();
        state.extend(oldest.map(|since| ("oldest_since".to_owned(), json!(since))));
        Some(state)
    }
}

fn epoch_seconds(cx: &BlockingContext) -> i64 {
    i64::try_from(since_epoch(cx.system.now()).as_secs()).unwrap_or(i64::MAX)
}

/// Reads the owed refreshes without the run lock, so it works during a run.
fn read_owed_refreshes(options: &Options) -> Result<Vec<OwedRefresh>, ActionError> {
    RefreshLedger::read_owed(&open_state_dir(options)?).map_err(ActionError::from_cause)
}
