//! `rpc approve`: shows a proposed request and signs it with the approver's own key. Sends nothing to nodes.

pub mod args;
pub mod output;

use std::path::PathBuf;

use muster_base::unix_millis_now;
use muster_client::{
    AgentSchemas, ApprovalFileError, load_offline_signer, read_approval_file, write_approval_file,
};
use muster_ddl::ActionSchema;
use muster_display::printer::GOOD;
use muster_wire::approval::{ProposalInputs, RequestProposal};
use muster_wire::limits;

use crate::commands::approve::args::ApproveArgs;
use crate::commands::approve::output::render_proposal;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::confirm_on_terminal;
use crate::session::terminal::PromptError;

pub fn run(args: &ApproveArgs, cx: CommandContext<'_>) -> CommandResult {
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(settings))?;
    let offline_signer = load_offline_signer(settings)?;
    let bytes = read_approval_file(&args.file, limits::MAX_PROPOSAL_BYTES)?;
    let invalid = |source| ApprovalFileError::Invalid { path: args.file.clone(), source };
    let proposed = offline_signer.read_proposal(&bytes).map_err(invalid)?;
    let proposal = &proposed.proposal;
    let ddl = schemas.store.get(proposal.agent.as_str());
    let action = ddl.and_then(|ddl| ddl.find_action(proposal.action.as_str()));
    let validity = proposed.check_validity_period(unix_millis_now());
    let page = render_proposal(&proposed, action, validity.is_err(), cx.width());
    cx.printer.print_text(page)?;
    if args.show {
        return Ok(CommandExitCode::Passed);
    }
    validity.map_err(invalid)?;
    reject_hidden_inputs(&proposal.inputs, action)?;
    let signer = &offline_signer.signer;
    if proposal.caller == *signer.identity() || proposed.caller.key == signer.public_key() {
        return Err(ApprovalFileError::OwnProposal(signer.identity().clone()).into());
    }
    let question = format_args!("Approve this as {}? [y/N]", signer.identity());
    if !args.yes
        && !confirm_on_terminal(question, cx.printer).ok_or(PromptError::UnconfirmedApproval)?
    {
        cx.printer.print_message("not approved; nothing was written");
        return Ok(CommandExitCode::Local);
    }
    let approval = offline_signer.sign_approval(&bytes).map_err(ApprovalFileError::from)?;
    let path = args.output.clone().unwrap_or_else(|| {
        let mut name = args.file.clone().into_os_string();
        name.push(".approved");
        PathBuf::from(name)
    });
    if path.as_os_str() == "-" {
        cx.printer.print_text(String::from_utf8_lossy(&approval) + "\n")?;
        return Ok(CommandExitCode::Passed);
    }
    write_approval_file(&path, &approval)?;
    let (approver, path) = (signer.identity(), path.display());
    cx.printer.print_message(format_args!("{GOOD}approved{GOOD:#} as {approver}: {path}"));
    let RequestProposal { caller, agent, action, .. } = proposal;
    cx.printer.print_hint(format_args!(
        "{caller} sends the request with `rpc {agent} {action} ... --approve {path}`"
    ));
    Ok(CommandExitCode::Passed)
}

/// Rejects a proposal that hides inputs which the schema does not mark as secret.
fn reject_hidden_inputs(
    inputs: &ProposalInputs,
    action: Option<&ActionSchema>,
) -> Result<(), ApprovalFileError> {
    let is_secret = |name: &str| action.is_some_and(|action| action.is_sensitive(name));
    match inputs.secret.keys().find(|name| !is_secret(name)) {
        Some(name) => Err(ApprovalFileError::Hidden(name.clone())),
        None => Ok(()),
    }
}
