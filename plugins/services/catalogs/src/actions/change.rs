//! `compile` and `announce`.

use muster_api::base::error_chain;
use muster_api::{ActionError, CallContext};
use muster_contract::compiler::{
    CompilerAnnounceInput, CompilerAnnounceOutput, CompilerCompileInput, CompilerCompileOutput,
};

use super::{CompilerActions, find_environment, select_nodes, store_failure};

/// Most nodes in an answer that cannot be compiled.
const MAX_IMPOSSIBLE: usize = 100;

/// Adds the nodes to the queue, before those that wait because of a change.
pub(super) async fn compile(
    actions: CompilerActions,
    cx: CallContext,
    input: CompilerCompileInput,
) -> Result<CompilerCompileOutput, ActionError> {
    let handle = &actions.handle;
    let nodes = select_nodes(handle, input.filter.as_deref())?;
    let mut output = CompilerCompileOutput { nodes: nodes.len(), ..Default::default() };
    let reason = format!("{} asked for it", cx.caller);
    for node in nodes {
        match handle.want(&node, reason.clone(), true).await.map_err(store_failure)? {
            Some(added) => output.added += usize::from(added),
            None if output.impossible.len() < MAX_IMPOSSIBLE => {
                output.impossible.push(node.to_string());
            }
            None => {}
        }
    }
    Ok(output)
}

/// Looks for newer code, or chooses a commit.
pub(super) async fn announce(
    actions: CompilerActions,
    cx: CallContext,
    input: CompilerAnnounceInput,
) -> Result<CompilerAnnounceOutput, ActionError> {
    let environment = find_environment(&actions, &input.environment)?.clone();
    let (store, pinned) = (actions.code.clone(), input.code.is_some());
    let found = cx.run_blocking(move |_| match input.code {
        Some(code) => store.resolve_commit(&environment, &code),
        None => store.find_newest(&environment),
    });
    let code = found.await?.map_err(|error| ActionError::failed(error_chain(&error)))?;
    let changed = actions.handle.announce(&input.environment, &code, pinned).await;
    Ok(CompilerAnnounceOutput { code: code.into(), changed: changed.map_err(store_failure)? })
}
