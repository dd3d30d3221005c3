//! The agent `history`: `query`, `runs`, `drift`, `statistics` and `report`.

use std::sync::Arc;

use muster_api::{ActionError, Agent, AgentError};
use muster_contract::history::{
    DEFAULT_HISTORY_ROWS, HistoryAgent, HistoryDrift, HistoryDriftInput, HistoryDriftOutput,
    HistoryQuery, HistoryQueryInput, HistoryQueryOutput, HistoryReport, HistoryReportInput,
    HistoryReportOutput, HistoryRuns, HistoryRunsInput, HistoryRunsOutput, HistoryStatistics,
    HistoryStatisticsInput, HistoryStatisticsOutput, MAX_DRIFT_ROWS,
};
use muster_directory::DirectoryHandle;
use muster_wire::compressed::compress_json;
use muster_wire::identity::Identity;

use crate::index::{HistoryIndex, IndexError};
use crate::service::HistoryProgress;

/// What answers need.
#[derive(Debug, Clone)]
pub struct HistoryActions {
    pub index: Arc<HistoryIndex>,
    pub directory: DirectoryHandle,
    pub progress: Arc<HistoryProgress>,
}

/// The agent `history`. The daemon offers it through the service's own connection, so it is not among the agents of the node.
pub fn build_agent(actions: &HistoryActions) -> Result<Agent, AgentError> {
    Agent::builder_for::<HistoryAgent>()?
        .blocking_action(HistoryQuery, actions, |actions, _, input| actions.query(&input))
        .blocking_action(HistoryRuns, actions, |actions, _, input| actions.runs(&input))
        .blocking_action(HistoryDrift, actions, |actions, _, input| actions.drift(&input))
        .blocking_action(HistoryStatistics, actions, |actions, _, input| actions.statistics(&input))
        .blocking_action(HistoryReport, actions, |actions, _, input| actions.report(&input))
        .build()
}

impl HistoryActions {
    fn query(&self, input: &HistoryQueryInput) -> Result<HistoryQueryOutput, ActionError> {
        let nodes = self.select_nodes(input.filter.as_deref())?;
        let limit = input.limit.unwrap_or(DEFAULT_HISTORY_ROWS);
        let page = self.index.query(input, nodes.as_deref(), limit).map_err(failed)?;
        Ok(HistoryQueryOutput {
            rows: page.rows,
            next: page.next,
            position: Some(page.position),
            behind: self.progress.behind(),
            complete_since: self.index.oldest().map_err(failed)?,
        })
    }

    fn runs(&self, input: &HistoryRunsInput) -> Result<HistoryRunsOutput, ActionError> {
        let nodes = self.select_nodes(input.filter.as_deref())?;
        let limit = input.limit.unwrap_or(DEFAULT_HISTORY_ROWS);
        let (runs, more) = self.index.runs(input, nodes.as_deref(), limit).map_err(failed)?;
        Ok(HistoryRunsOutput { runs, more, behind: self.progress.behind() })
    }

    fn drift(&self, input: &HistoryDriftInput) -> Result<HistoryDriftOutput, ActionError> {
        let nodes = self.select_nodes(input.filter.as_deref())?;
        let mut drift = self.index.drift(nodes.as_deref()).map_err(failed)?;
        let more = drift.is_cut || drift.rows.len() > MAX_DRIFT_ROWS;
        drift.rows.truncate(MAX_DRIFT_ROWS);
        Ok(HistoryDriftOutput { rows: drift.rows, more, behind: self.progress.behind() })
    }

    fn statistics(
        &self,
        input: &HistoryStatisticsInput,
    ) -> Result<HistoryStatisticsOutput, ActionError> {
        let nodes = self.select_nodes(input.filter.as_deref())?;
        let counted = self.index.statistics(input, nodes.as_deref()).map_err(failed)?;
        Ok(HistoryStatisticsOutput { behind: self.progress.behind(), ..counted })
    }

    fn report(&self, input: &HistoryReportInput) -> Result<HistoryReportOutput, ActionError> {
        let found = self.index.report(&input.node, input.run.as_deref()).map_err(failed)?;
        let Some((run, folded)) = found else {
            let node = &input.node;
            return Err(ActionError::invalid_input(match &input.run {
                Some(run) => format!("the history has no run {run} of {node}"),
                None => format!("the history has no run of {node}"),
            }));
        };
        let report = compress_json(&folded.report).map_err(ActionError::from_cause)?;
        Ok(HistoryReportOutput { run, report })
    }

    /// The nodes that match now; `None` without a filter: then nodes that are gone have a history, too.
    fn select_nodes(&self, filter: Option<&str>) -> Result<Option<Vec<Identity>>, ActionError> {
        filter.map(|filter| self.directory.select_names(Some(filter))).transpose()
    }
}

fn failed(error: IndexError) -> ActionError {
    ActionError::from_cause(error)
}
