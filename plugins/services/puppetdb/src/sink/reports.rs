//! Sends the reports of ended runs, in the order in which they reached the history.

use std::sync::Arc;
use std::time::Duration;

use muster_base::{error_chain, unix_millis_now};
use muster_history::index::{EndedRun, HistoryIndex, IndexError};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;
use uuid::Uuid;

use super::command::{CommandKind, PuppetdbCommand};
use super::sender::CommandSender;
use super::state::StateFile;
use crate::forms::{FormSource, ReportSource, report_form};

/// How often the index is read.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Runs that are read at once.
const PAGE_RUNS: usize = 100;
/// `PuppetDB` deletes reports that are older, by default.
const MAX_AGE_MILLIS: u64 = 14 * 24 * 60 * 60 * 1000;
/// Of a run whose report has none.
const DEFAULT_ENVIRONMENT: &str = "production";

/// Sends reports.
pub(super) struct RunReports {
    pub(super) index: Arc<HistoryIndex>,
    pub(super) sender: CommandSender,
    pub(super) state: Arc<StateFile>,
    pub(super) producer: String,
}

/// Why the index was not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("a task of the index ended")]
    Task(#[from] JoinError),
}

impl RunReports {
    pub(super) async fn follow(self) {
        loop {
            match self.send_page().await {
                Ok(0) => {}
                // There may be more.
                Ok(_) => {
                    self.count_waiting().await;
                    continue;
                }
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot read reports for PuppetDB; trying again");
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Counts what waits, while a command is repeated, too.
    pub(super) async fn count_waiting(&self) {
        let (index, cursor) = (Arc::clone(&self.index), self.state.reports());
        let counted = spawn_blocking(move || index.count_ended_runs(cursor.as_ref())).await;
        if let Ok(Ok(count)) = counted {
            self.sender.counts().set_waiting(CommandKind::Report, count);
        }
    }

    /// Sends the next reports, and returns how many runs were read.
    async fn send_page(&self) -> Result<usize, ReadError> {
        let (index, cursor) = (Arc::clone(&self.index), self.state.reports());
        let runs = spawn_blocking(move || index.ended_runs(cursor.as_ref(), PAGE_RUNS)).await??;
        let count = runs.len();
        for run in runs {
            self.send_run(&run).await?;
            self.state.set_reports(run.cursor);
        }
        Ok(count)
    }

    async fn send_run(&self, run: &EndedRun) -> Result<(), ReadError> {
        let (index, node, id) = (Arc::clone(&self.index), run.node.clone(), run.cursor.run.clone());
        let found = spawn_blocking(move || index.report(&node, Some(&id))).await??;
        // Deleted meanwhile.
        let Some((row, folded)) = found else { return Ok(()) };
        let ended = row.ended.unwrap_or(row.started);
        if unix_millis_now().saturating_sub(ended) > MAX_AGE_MILLIS {
            return Ok(());
        }
        let form = FormSource {
            certname: &run.node,
            environment: DEFAULT_ENVIRONMENT,
            producer: &self.producer,
            // The same each time, so that PuppetDB knows a report that it has.
            producer_timestamp: ended,
        };
        let id = Uuid::try_parse(&run.cursor.run).unwrap_or(folded.run);
        let form =
            report_form(&folded.report, ReportSource { form, run: id, started: row.started });
        self.sender.send(PuppetdbCommand::new(CommandKind::Report, &run.node, ended, form)).await;
        Ok(())
    }
}
