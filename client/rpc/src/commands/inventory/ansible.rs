//! `rpc inventory --ansible`: the directory as a dynamic inventory of Ansible.

use std::collections::BTreeSet;

use muster_client::{FleetConnection, TargetSelection, list_documents, show_registered};
use muster_contract::directory::{DirectoryNodeDocument, DirectoryNodeRow};
use muster_display::count_text;
use muster_operations::ansible::{
    AnsibleHostError, AnsibleOptions, ansible_host, build_ansible_inventory,
};
use muster_wire::identity::Identity;

use crate::commands::inventory::args::AnsibleArgs;
use crate::flags::filters::FilterArgs;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};
use crate::session::form::JsonForm;

/// Most keys of facts in a message, and most characters of each.
const MAX_SHOWN_KEYS: usize = 5;
const MAX_SHOWN_CHARS: usize = 60;

#[derive(Debug, thiserror::Error)]
#[error("{node} is left out of the inventory: {reason}")]
pub struct LeftOutHostError {
    node: Identity,
    reason: AnsibleHostError,
}

impl CommandError for LeftOutHostError {}

/// Prints the inventory, or the variables of one host. Ansible needs exit code 0, also if there are no nodes.
pub async fn run(
    args: &AnsibleArgs,
    filters: &FilterArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let target = cx.read_target(filters)?;
    let fleet = cx.connect(&target).await?;
    match &args.host {
        Some(node) => print_host(node, args, &fleet, cx).await?,
        None => print_list(args, &target, &fleet, cx).await?,
    }
    Ok(CommandExitCode::Passed)
}

async fn print_list(
    args: &AnsibleArgs,
    target: &TargetSelection,
    fleet: &FleetConnection,
    cx: CommandContext<'_>,
) -> Result<()> {
    let list = list_documents(fleet, target).await?;
    let options = AnsibleOptions { group_by: &args.group_by, variables: &args.var };
    let inventory = build_ansible_inventory(&list.nodes, options);
    for (group, sources) in &inventory.merged {
        cx.printer.print_warning(merged_warning(group, sources));
    }
    for (node, error) in &inventory.refused {
        let node = shorten(node);
        cx.printer.print_warning(format_args!("{node} is left out of the inventory: {error}"));
    }
    for (node, keys) in &inventory.left_out_keys {
        cx.printer.print_warning(keys_warning(node, keys));
    }
    for group in &inventory.left_out_groups {
        let group = shorten(group);
        cx.printer.print_warning(format_args!(
            "the group {group} is left out: a host has this name, or it is too long"
        ));
    }
    cx.print_json(&inventory.document, &JsonForm(None))
}

async fn print_host(
    node: &Identity,
    args: &AnsibleArgs,
    fleet: &FleetConnection,
    cx: CommandContext<'_>,
) -> Result<()> {
    let shown = show_registered(fleet, node.as_str(), false).await?;
    let document = DirectoryNodeDocument { classes: shown.classes, facts: shown.facts };
    let row = DirectoryNodeRow { document: Some(document), ..shown.node };
    let host = ansible_host(&row, &args.var)
        .map_err(|reason| LeftOutHostError { node: node.clone(), reason })?;
    if !host.left_out_keys.is_empty() {
        cx.printer.print_warning(keys_warning(node.as_str(), &host.left_out_keys));
    }
    cx.print_json(&host.variables, &JsonForm(None))
}

fn keys_warning(node: &str, keys: &[String]) -> String {
    let shown = keys.iter().take(MAX_SHOWN_KEYS).map(|key| format!("`{}`", shorten(key)));
    let more = match keys.len().saturating_sub(MAX_SHOWN_KEYS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{node}: {} of facts left out, because Ansible could take them for templates: {}{more}",
        count_text(keys.len(), "key", "keys"),
        shown.collect::<Vec<_>>().join(", ")
    )
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

fn merged_warning(group: &str, sources: &BTreeSet<String>) -> String {
    let names: Vec<&str> = sources.iter().map(String::as_str).collect();
    format!(
        "the group {group} stands for {}: Ansible accepts letters, digits and _ only",
        names.join(", ")
    )
}
