//! `rpc inventory --ansible`: the directory as a dynamic inventory of Ansible.

use std::collections::BTreeSet;

use muster_contract::directory::{DirectoryNodeDocument, DirectoryNodeRow};
use muster_request::{
    AnsibleOptions, FleetConnection, TargetSelection, ansible_host_variables,
    build_ansible_inventory,
};
use muster_wire::identity::Identity;

use crate::cli::filters::FilterArgs;
use crate::cli::inventory::AnsibleArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::commands::form::JsonForm;
use crate::render::escape_to_line;

/// Prints the inventory, or the variables of one host. Ansible needs exit code 0, also if there are no nodes.
pub async fn run(
    args: &AnsibleArgs,
    filters: &FilterArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let target = cx.read_target(filters)?;
    let fleet = FleetConnection::connect(&cx.load_settings()?, &target).await?;
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
    let list = fleet.list_documents(target).await?;
    let options = AnsibleOptions { group_by: &args.group_by, variables: &args.var };
    let inventory = build_ansible_inventory(&list.nodes, options);
    for (group, sources) in &inventory.merged {
        cx.printer.print_warning(merged_warning(group, sources));
    }
    cx.print_json(&inventory.document, &JsonForm(None))
}

async fn print_host(
    node: &Identity,
    args: &AnsibleArgs,
    fleet: &FleetConnection,
    cx: CommandContext<'_>,
) -> Result<()> {
    let shown = fleet.show_registered(node.as_str(), false).await?;
    let document = DirectoryNodeDocument { classes: shown.classes, facts: shown.facts };
    let row = DirectoryNodeRow { document: Some(document), ..shown.node };
    cx.print_json(&ansible_host_variables(&row, &args.var), &JsonForm(None))
}

fn merged_warning(group: &str, sources: &BTreeSet<String>) -> String {
    let names: Vec<String> = sources.iter().map(|name| escape_to_line(name).to_string()).collect();
    format!(
        "the group {group} stands for {}: Ansible accepts letters, digits and _ only",
        names.join(", ")
    )
}
