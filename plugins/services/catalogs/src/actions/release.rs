//! `draft`, `publish`, `releases`, `release`, `diff` and `promote`.

use muster_api::base::NodeText;
use muster_api::wire::token::UserRole;
use muster_api::{ActionError, CallContext, EmptyInput};
use muster_contract::compiler::{
    CompilerDiffGroup, CompilerDiffInput, CompilerDiffOutput, CompilerDiffRow, CompilerDraftInput,
    CompilerDraftOutput, CompilerPromoteInput, CompilerPromoteOutput, CompilerPublishInput,
    CompilerReleaseInput, CompilerReleaseOutput, CompilerReleaseRow, CompilerReleasesOutput,
};
use muster_directory::not_ready;
use muster_filter::NodeFilter;
use muster_wire::catalog::release::{
    MAX_RELEASE_NODES, Release, ReleaseNodes, ReleasedEntry, open_release,
};
use muster_wire::identity::Identity;
use similar::TextDiff;

use super::context::{CompilerActions, find_environment, invalid_query};
use super::show;
use crate::handle::{CompilerHandle, KnownCode};
use crate::releases::{DiffGroup, ResourceChange, compare_nodes};

/// Most failed nodes in an answer, each with its error.
const MAX_FAILED: usize = 100;
const MAX_RELEASES: usize = 500;
const MAX_GROUPS: usize = 100;
const MAX_NAMES: usize = 20;
const MAX_CHANGES: usize = 200;
/// Most changed sources that are shown as texts.
const MAX_TEXTS: usize = 50;
/// Most bytes of values in an answer about differences.
const MAX_DIFF_BYTES: usize = 500_000;
/// Most bytes of one value.
const MAX_VALUE_BYTES: usize = 8_000;

pub(super) async fn draft(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerDraftInput,
) -> Result<CompilerDraftOutput, ActionError> {
    let handle = &actions.handle;
    let environment = find_environment(&actions, &input.environment)?.name.clone();
    let KnownCode { announced, version, .. } = handle.code(&environment);
    // As long as the code is not here, every node is to be compiled.
    let version = version.filter(|version| {
        announced.as_ref().is_some_and(|announced| version.code == announced.code)
    });
    let has_code = version.is_some();
    let mut output = CompilerDraftOutput {
        code: announced.map(|announced| announced.code.into()),
        name: actions.releases.next_name().await.map_err(ActionError::from_cause)?,
        ..CompilerDraftOutput::default()
    };
    let mut nodes = ReleaseNodes::new();
    for node in handle.directory().select_names(input.filter.as_deref())? {
        let of_node = handle.environment_of(&node).map_err(|error| invalid_query(&error))?;
        if of_node.is_none_or(|found| found.name != environment) {
            continue;
        }
        output.total += 1;
        output.waiting += usize::from(!has_code || is_waiting(handle, &node)?);
        let Some(last) = handle.last_compile(&node) else { continue };
        if last.record.state.environment != environment {
            continue;
        }
        if last.record.failure.is_some() {
            output.failed_total += 1;
            if output.failed.len() < MAX_FAILED {
                output.failed.push(show::node_row(handle, &node));
            }
        } else if let Some(catalog) = last.record.catalog {
            nodes.insert(node, catalog.address);
        }
    }
    if nodes.len() > MAX_RELEASE_NODES {
        let text = format!(
            "{} nodes are too many; a release has at most {MAX_RELEASE_NODES}: give a filter",
            nodes.len()
        );
        return Err(ActionError::invalid_input(text));
    }
    output.nodes = nodes.len();
    if output.waiting == 0 || input.incomplete == Some(true) {
        let list = actions.releases.store_list(&nodes).await.map_err(ActionError::from_cause)?;
        output.list = Some(list.to_string());
        if let Some(version) = &version {
            let plugins = actions.releases.store_plugins(version).await;
            let plugins = plugins.map_err(ActionError::from_cause)?;
            output.plugins = plugins.map(|list| list.to_string());
        }
    }
    Ok(output)
}

/// Whether a node has to be compiled, or is in the queue because of a request.
fn is_waiting(handle: &CompilerHandle, node: &Identity) -> Result<bool, ActionError> {
    if handle.queue().get(node).is_some() {
        return Ok(true);
    }
    let cause = tokio::task::block_in_place(|| handle.cause_of(node));
    Ok(cause.map_err(ActionError::from_cause)?.is_some())
}

/// Stores a release of the caller.
pub(super) async fn publish(
    actions: CompilerActions,
    cx: CallContext,
    input: CompilerPublishInput,
) -> Result<CompilerReleaseRow, ActionError> {
    let handle = &actions.handle;
    let release = open_release(&input.release, &handle.trust(), handle.tokens())
        .map_err(ActionError::from_cause)?;
    check_author(&cx, &release.author)?;
    let published = actions.releases.publish(&release, &input.release).await;
    published.map_err(ActionError::from_cause)?;
    Ok(release_row(release))
}

pub(super) async fn releases(
    actions: CompilerActions,
    _: CallContext,
    _: EmptyInput,
) -> Result<CompilerReleasesOutput, ActionError> {
    let all = actions.releases.list().await.map_err(ActionError::from_cause)?;
    let total = all.len();
    let releases = all.into_iter().take(MAX_RELEASES).map(release_row).collect();
    Ok(CompilerReleasesOutput { releases, total })
}

pub(super) async fn release(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerReleaseInput,
) -> Result<CompilerReleaseOutput, ActionError> {
    let release = actions.releases.read(&input.name).await.map_err(ActionError::from_cause)?;
    Ok(CompilerReleaseOutput { release })
}

pub(super) async fn diff(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerDiffInput,
) -> Result<CompilerDiffOutput, ActionError> {
    let after = read_nodes(&actions, &input.name).await?;
    let before = if let Some(name) = &input.from {
        read_nodes(&actions, name).await?
    } else {
        let held = actions.handle.held_catalogs().map_err(|error| invalid_query(&error))?;
        let mut held = held.ok_or_else(not_ready)?;
        held.retain(|node, _| after.contains_key(node));
        held
    };
    let compared = compare_nodes(actions.handle.catalogs(), &before, &after);
    let compared = compared.await.map_err(ActionError::from_cause)?;
    let (more, mut space) = (compared.groups.len().saturating_sub(MAX_GROUPS), MAX_DIFF_BYTES);
    let mut groups: Vec<DiffGroup> = compared.groups.into_iter().take(MAX_GROUPS).collect();
    show_texts(&actions, &mut groups).await;
    Ok(CompilerDiffOutput {
        groups: groups.into_iter().map(|group| group_row(group, &mut space)).collect(),
        more,
        unchanged: compared.unchanged,
        added: compared.added,
        removed: compared.removed,
    })
}

/// Shows changed sources as texts.
async fn show_texts(actions: &CompilerActions, groups: &mut [DiffGroup]) {
    let mut left = MAX_TEXTS;
    for group in groups {
        for (_, change) in group.changes.iter_mut().take(MAX_CHANGES) {
            if left == 0 {
                return;
            }
            left -= usize::from(actions.releases.show_texts(change).await);
        }
    }
}

/// Stores a promotion of the caller for the nodes of its release that match.
pub(super) async fn promote(
    actions: CompilerActions,
    cx: CallContext,
    input: CompilerPromoteInput,
) -> Result<CompilerPromoteOutput, ActionError> {
    let handle = &actions.handle;
    let entry = ReleasedEntry { promotion: input.promotion, release: input.release };
    let opened = entry
        .open(&handle.trust(), handle.tokens(), handle.now())
        .map_err(ActionError::from_cause)?;
    check_author(&cx, &opened.promotion.author)?;
    let listed = actions.releases.read_list(opened.release.list).await;
    let listed = listed.map_err(ActionError::from_cause)?;
    let matching = find_nodes(&actions, &opened.promotion.filter)?;
    let nodes: Vec<Identity> = matching.filter(|node| listed.contains_key(node)).collect();
    let count = nodes.len();
    let promoted = actions.releases.promote(&entry, &opened.promotion, nodes).await;
    let promoted = promoted.map_err(ActionError::from_cause)?;
    Ok(CompilerPromoteOutput { nodes: count, stored: promoted.stored, later: promoted.later })
}

/// Refuses what another user signed: the policy was evaluated for the caller of this request.
fn check_author(cx: &CallContext, author: &Identity) -> Result<(), ActionError> {
    let is_caller = cx.sender.as_ref().is_some_and(|sender| sender.role == UserRole::Caller);
    if *author == cx.caller && is_caller {
        return Ok(());
    }
    let text = format!("{author} signed it, and {} sent it; both must be the same user", cx.caller);
    Err(ActionError::denied_by_rule(text, "the author sends what is signed"))
}

fn find_nodes(
    actions: &CompilerActions,
    filter: &NodeFilter,
) -> Result<impl Iterator<Item = Identity>, ActionError> {
    let found = actions.handle.directory().select_nodes(filter, &[]);
    let found = found.map_err(|error| invalid_query(&error))?.ok_or_else(not_ready)?;
    Ok(found.into_iter().map(|node| node.identity))
}

async fn read_nodes(actions: &CompilerActions, name: &str) -> Result<ReleaseNodes, ActionError> {
    let text = actions.releases.read(name).await.map_err(ActionError::from_cause)?;
    let release = Release::read_unverified(&text).map_err(ActionError::from_cause)?;
    actions.releases.read_list(release.list).await.map_err(ActionError::from_cause)
}

fn release_row(release: Release) -> CompilerReleaseRow {
    CompilerReleaseRow {
        name: release.name.to_string(),
        environment: release.environment.into(),
        code: release.code.into(),
        author: release.author.to_string(),
        created_at: release.created_at,
        nodes: release.nodes,
    }
}

fn group_row(group: DiffGroup, space: &mut usize) -> CompilerDiffGroup {
    let total = group.changes.len();
    let mut changes = Vec::new();
    for (resource, change) in group.changes.into_iter().take(MAX_CHANGES) {
        let (row, bytes) = change_row(resource, change);
        let Some(left) = space.checked_sub(bytes) else { break };
        *space = left;
        changes.push(row);
    }
    let names = group.nodes.iter().take(MAX_NAMES).map(ToString::to_string).collect();
    let more = total - changes.len();
    CompilerDiffGroup { nodes: group.nodes.len(), names, changes, more }
}

/// A change with the bytes that its texts have.
fn change_row(resource: String, change: ResourceChange) -> (CompilerDiffRow, usize) {
    let mut bytes = resource.len();
    let mut shown = |text: String| {
        let text = shorten(text);
        bytes += text.len();
        NodeText::from(text)
    };
    let row = CompilerDiffRow { resource: resource.into(), ..CompilerDiffRow::default() };
    let row = match change {
        ResourceChange::Added => CompilerDiffRow { change: "added".into(), ..row },
        ResourceChange::Removed => CompilerDiffRow { change: "removed".into(), ..row },
        ResourceChange::Parameter { name, before, after } => {
            let parameter = Some(shown(name));
            let row = CompilerDiffRow { change: "changed".into(), parameter, ..row };
            match (before, after) {
                (Some(old), Some(new)) if old.contains('\n') || new.contains('\n') => {
                    let diff = TextDiff::from_lines(&old, &new).unified_diff().to_string();
                    CompilerDiffRow { diff: Some(shown(diff)), ..row }
                }
                (before, after) => {
                    let (before, after) = (before.map(&mut shown), after.map(&mut shown));
                    CompilerDiffRow { before, after, ..row }
                }
            }
        }
    };
    (row, bytes)
}

/// Cuts a text that is too long, and says so.
fn shorten(text: String) -> String {
    if text.len() <= MAX_VALUE_BYTES {
        return text;
    }
    let end = text.floor_char_boundary(MAX_VALUE_BYTES);
    format!("{}\n[cut: {} bytes]", text.get(..end).unwrap_or_default(), text.len())
}
