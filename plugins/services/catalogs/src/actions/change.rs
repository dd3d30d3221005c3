//! `compile`, `check` and `announce`.

use muster_api::base::error_chain;
use muster_api::{ActionError, CallContext};
use muster_contract::compiler::{
    CompilerAnnounceInput, CompilerAnnounceOutput, CompilerCheckInput, CompilerCheckOutput,
    CompilerCheckRow, CompilerCompileInput, CompilerCompileOutput, MAX_CHECKED_NODES,
};

use crate::releases::ResourceChange;

use super::context::{CompilerActions, find_environment, store_failure};

/// Most nodes in an answer that cannot be compiled.
const MAX_IMPOSSIBLE: usize = 100;
/// Most resources of a node in an answer to a check.
const MAX_RESOURCES: usize = 50;

/// Adds the nodes to the queue, before those that wait because of a change.
pub(super) async fn compile(
    actions: CompilerActions,
    cx: CallContext,
    input: CompilerCompileInput,
) -> Result<CompilerCompileOutput, ActionError> {
    let handle = &actions.handle;
    let nodes = handle.directory().select_names(input.filter.as_deref())?;
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

/// Compiles nodes twice more, and with altered facts: nothing else may decide about their catalogs than what was recorded.
pub(super) async fn check(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerCheckInput,
) -> Result<CompilerCheckOutput, ActionError> {
    let nodes = actions.handle.directory().select_names(input.filter.as_deref())?;
    if nodes.len() > MAX_CHECKED_NODES {
        let text = format!(
            "{} nodes are too many for one check; it has at most {MAX_CHECKED_NODES}: give a filter",
            nodes.len()
        );
        return Err(ActionError::invalid_input(text));
    }
    let mut output = CompilerCheckOutput::default();
    for node in nodes {
        let checked = actions.checker.check_inputs(&node).await;
        let Some(check) = checked.map_err(ActionError::from_cause)? else {
            output.impossible.push(node.to_string());
            continue;
        };
        let names = |changes: Vec<(String, ResourceChange)>| {
            let mut names: Vec<String> = changes.into_iter().map(|(name, _)| name).collect();
            names.dedup();
            names.into_iter().take(MAX_RESOURCES).map(Into::into).collect()
        };
        output.nodes.push(CompilerCheckRow {
            node: node.to_string(),
            altered: check.altered,
            missed: names(check.missed),
            unsteady: names(check.unsteady),
            failure: check.failure.map(|failure| failure.message.into()),
        });
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
