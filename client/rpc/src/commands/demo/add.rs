//! `rpc demo add`: starts one more machine. It has a bootstrap token instead of credentials, and the provisioner makes it a node.

use std::path::Path;

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;
use muster_organisation::Organisation;

use crate::commands::demo::error::{DemoError, name_error};
use crate::commands::demo::policies::DemoPolicies;
use crate::commands::demo::record::DemoRecord;
use crate::commands::demo::up::{DemoStart, ORGANISATION_DIRECTORY, find_daemon};
use crate::commands::demo::{fleet, node, services};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Starts the machine that follows the existing nodes, and waits until it is in the directory.
pub async fn run(directory: &Path, cx: CommandContext<'_>) -> CommandResult {
    let CommandContext { environment, printer, .. } = cx;
    let record = DemoRecord::load(directory)?;
    if !record.is_running() {
        return Err(DemoError::AlreadyExists(directory.to_owned()).into());
    }
    let (count, is_virtual) = record.count_nodes();
    if is_virtual {
        return Err(DemoError::OnlyVirtual(directory.to_owned()).into());
    }
    let node = fleet::demo_nodes(count + 1).map_err(name_error)?.swap_remove(count);
    let organisation = Organisation::open(&directory.join(ORGANISATION_DIRECTORY))?;
    let daemon = find_daemon(environment)?;
    let mut demo = DemoStart { directory, daemon, compiler: None, record, printer };
    let config = {
        let lock = organisation.lock()?;
        let home = directory.join("nodes").join(node.name.as_str());
        let files = (&node, &DemoPolicies::from_schemas().map_err(DemoError::from)?);
        node::make_new_machine(
            &organisation,
            &lock,
            &home,
            files,
            demo.node_sections(),
            unix_millis_now(),
        )?
    };
    demo.start_daemon(node.name.clone(), &config, None, &[])?;
    printer.print_message(format_args!(
        "{} starts with a bootstrap token; the provisioner enrols it ...",
        node.name
    ));
    let total = u32::try_from(count + 1).unwrap_or(u32::MAX);
    if !services::await_directory(directory, total).await? {
        printer.print_warning(format_args!("the directory does not have {} yet", node.name));
        printer.print_hint("run `rpc provision status`, which shows the state of the machine");
        return Ok(CommandExitCode::Local);
    }
    printer.print_message(format_args!("{GOOD}enrolled{GOOD:#}: {} is a node", node.name));
    printer.print_line(&node.name)?;
    Ok(CommandExitCode::Passed)
}
