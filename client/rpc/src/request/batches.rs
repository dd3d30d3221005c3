//! Asks nodes for their inventory in batches, so that memory use does not depend on the size of the fleet.

use std::collections::BTreeSet;

use muster_base::NodeText;
use muster_client::jobs::JobEnd;
use muster_client::{
    AgentSchemas, FleetConnection, FleetRequestError, Located, NodeReply, RequestEvent,
    RequestObserver as _, RequestStats, ResultGap, TargetSelection,
};
use muster_contract::rpcutil::RpcutilInventory;
use muster_ddl::EmptyInput;
use muster_display::list_first_nodes;
use muster_display::template::OutputTemplateError;
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_nodes;
use crate::session::context::{CommandContext, Result};

const BATCH_NODES: usize = 128;

/// Most names of silent nodes that are printed.
const MAX_SHOWN_NAMES: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum UnusableReplyError {
    #[error("{}", .0.line())]
    Failed(NodeText),
    #[error("its inventory is not valid: {0}")]
    Invalid(#[from] serde_json::Error),
    #[error("--template: {0}")]
    Template(#[from] OutputTemplateError),
}

pub fn successful_outputs(reply: &NodeReply) -> Result<&Map<String, Value>, UnusableReplyError> {
    if reply.is_ok() {
        Ok(&reply.data)
    } else {
        Err(UnusableReplyError::Failed(reply.message.clone()))
    }
}

/// A connection and the nodes whose inventory is wanted.
pub struct InventoryQuery {
    fleet: FleetConnection,
    schemas: AgentSchemas,
    found: Located,
}

impl InventoryQuery {
    /// Connects, and discovers the nodes unless one is named. `None` if there are none, which is printed.
    pub async fn prepare(
        target: &TargetSelection,
        node: Option<&Identity>,
        cx: CommandContext<'_>,
    ) -> Result<Option<Self>> {
        let schemas = AgentSchemas::load(Some(cx.load_settings()?))?;
        let fleet = cx.connect(target).await?;
        let found = match node {
            Some(node) => Located::from_names(BTreeSet::from([node.clone()])),
            None => fleet.locate(target, &ProgressReporter::new(cx.printer, true)).await?,
        };
        if found.nodes.is_empty() {
            cx.report_no_nodes(target);
            return Ok(None);
        }
        Ok(Some(Self { fleet, schemas, found }))
    }

    /// Asks the nodes and passes on each reply, in order of names. Prints which nodes failed or did not reply, and the consequence.
    pub async fn ask_in_batches(
        self,
        consequence: &str,
        cx: CommandContext<'_>,
        mut handle_reply: impl FnMut(&NodeReply) -> Result<Result<(), UnusableReplyError>>,
    ) -> Result<RequestStats> {
        let Self { fleet, schemas, found } = self;
        let gaps = found.request_stats().gaps;
        let Located { nodes, filter, .. } = found;
        let plan = schemas.plan::<RpcutilInventory>(&EmptyInput {})?;
        let mut total = RequestStats { discovered: nodes.len(), gaps, ..RequestStats::default() };
        let progress = ProgressReporter::new(cx.printer, true);
        progress.observe(RequestEvent::CallsStarted(nodes.len()));
        let nodes: Vec<Identity> = nodes.into_iter().collect();
        for chunk in nodes.chunks(BATCH_NODES) {
            let nodes = chunk.iter().cloned().collect();
            let batch = Located { filter: filter.clone(), ..Located::from_names(nodes) };
            let no_progress = ProgressReporter::new(cx.printer, false);
            let mut report = ask_nodes(&fleet, &plan, batch, &no_progress).await?;
            report.replies.sort_by(|a, b| a.node.cmp(&b.node));
            cx.remember_inventories(&report);
            for reply in &report.replies {
                match progress.suspend(|| handle_reply(reply))? {
                    Ok(()) => total.ok += 1,
                    Err(error) => {
                        let message = format!("{}: {error}", reply.node);
                        progress.suspend(|| cx.printer.print_error(message));
                        total.failed += 1;
                    }
                }
            }
            total.missing.extend(report.stats.missing);
            total.gaps.extend(report.stats.gaps);
            let count = total.response_count() + total.missing.len();
            progress.observe(RequestEvent::RepliesCounted(count));
            if total.gaps.contains(&ResultGap::Interrupted) {
                return Err(FleetRequestError::Interrupted.into());
            }
        }
        progress.observe(RequestEvent::CallsEnded(JobEnd::Finished));
        if !total.missing.is_empty() {
            let names = list_first_nodes(&total.missing, MAX_SHOWN_NAMES, ", ");
            cx.printer.print_warning(format_args!("no reply, {consequence}: {names}"));
        }
        for gap in &total.gaps {
            cx.warn_of_gap(*gap);
        }
        Ok(total)
    }
}
