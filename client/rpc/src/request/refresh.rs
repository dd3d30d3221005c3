//! Fetches an agent's DDL from a node again, if the cached one does not declare a word of the request. The request is decided by the new one.

use muster_base::error_chain;
use muster_calls::DiscoverySource;
use muster_client::{
    AgentSchemas, DdlCache, FetchedDdl, FleetRequestError, RequestWords, RpcSettings,
    TargetSelection,
};
use muster_contract::rpcutil::{RpcutilDdl, RpcutilDdlInput};
use muster_wire::identity::Identity;

use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_node;
use crate::session::context::{CommandContext, Error, Result};

/// Replaces the cached DDL of the agent, if it may be stale. If no node sends one, the cached one stays in use.
pub async fn refresh_stale_ddl(
    schemas: &mut AgentSchemas,
    words: &RequestWords,
    target: &TargetSelection,
    cx: CommandContext<'_>,
) -> Result<()> {
    let Some(settings) = cx.settings().ok().filter(|_| schemas.may_be_stale(words)) else {
        return Ok(());
    };
    let agent = words.agent.as_str();
    let fetched = Box::pin(fetch_ddl(schemas, agent, target, settings, cx)).await;
    let (node, fetched) = match fetched {
        Ok(Some(fetched)) => fetched,
        Ok(None) => return Ok(()),
        Err(error) if is_interrupt(&error) => return Err(error),
        Err(error) => {
            let reason = error_chain(&error);
            cx.printer.print_detail(format_args!(
                "agent {agent}: the cached DDL was not refreshed: {reason}"
            ));
            return Ok(());
        }
    };
    let version = fetched.ddl.version();
    cx.printer.print_message(format_args!(
        "agent {agent}: the cached DDL does not declare all words of this request; using {version} from {node}"
    ));
    // The request works without the cache.
    if let Err(error) = DdlCache::for_settings(settings).store_ddl(&fetched) {
        cx.printer.print_detail(error_chain(&error));
    }
    schemas.replace(fetched.ddl);
    Ok(())
}

/// The DDL of the first target node that has the agent, and the node; `None` if there is no such node.
async fn fetch_ddl(
    schemas: &AgentSchemas,
    agent: &str,
    target: &TargetSelection,
    settings: &RpcSettings,
    cx: CommandContext<'_>,
) -> Result<Option<(Identity, FetchedDdl)>> {
    // Other sources may be readable only once, such as the standard input.
    let target = match target.discovery_source(Some(settings))? {
        DiscoverySource::Automatic | DiscoverySource::Directory | DiscoverySource::Broadcast => {
            target.clone()
        }
        _ => TargetSelection::for_collective(target.collective.clone()),
    };
    let target = target.with_agent(agent)?;
    let plan = schemas.plan::<RpcutilDdl>(&RpcutilDdlInput { agent: agent.to_owned() })?;
    let fleet = cx.connect(&target).await?;
    let progress = ProgressReporter::new(cx.printer, false);
    let found = fleet.locate(&target, &progress).await?;
    let Some(node) = found.nodes.first() else {
        return Ok(None);
    };
    let report = ask_node(&fleet, &plan, node, &progress).await?;
    let fetched = FetchedDdl::from_report(agent, &report).map_err(FleetRequestError::from)?;
    Ok(Some((node.clone(), fetched)))
}

fn is_interrupt(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(FleetRequestError::Interrupted))
}
