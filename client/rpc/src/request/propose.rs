//! `--request-approval`: writes the request to a proposal file for approval by a second person. Does not send it to nodes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use muster_calls::{ClientError, ProposalDraft};
use muster_client::{
    ApprovalFileError, RequestPlan, RpcSettings, TargetSelection, load_offline_signer,
    write_approval_file,
};
use muster_display::node_count_text;
use muster_wire::identity::{Identity, SubjectName};

use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Writes the proposal of a request on these nodes, which is valid for this time.
pub fn write_proposal(
    (path, lifetime): (&Path, Duration),
    plan: &RequestPlan<'_>,
    target: &TargetSelection,
    nodes: BTreeSet<Identity>,
    settings: &RpcSettings,
    cx: CommandContext<'_>,
) -> CommandResult {
    if nodes.is_empty() {
        cx.report_no_nodes(target);
        return Ok(CommandExitCode::Local);
    }
    let parse_name = |text: &str| {
        SubjectName::parse(text).map_err(|error| ApprovalFileError::from(ClientError::from(error)))
    };
    let secret = plan.data.keys().filter(|name| plan.action.is_sensitive(name));
    let count = node_count_text(nodes.len());
    let draft = ProposalDraft {
        collective: target.collective.clone().unwrap_or_else(|| settings.collective.clone()),
        agent: parse_name(plan.ddl.name())?,
        action: parse_name(plan.action.name())?,
        nodes,
        data: plan.data.clone(),
        secret: secret.cloned().collect(),
        lifetime,
    };
    let signer = load_offline_signer(settings)?;
    let sealed = signer.sign_proposal(&draft).map_err(ApprovalFileError::from)?;
    // The same limits apply when the file is read, so the error is reported here already.
    let invalid = |source| ApprovalFileError::Invalid { path: path.to_owned(), source };
    signer.read_proposal(&sealed).map_err(invalid)?;
    write_approval_file(path, &sealed)?;
    cx.printer.print_line(path.display())?;
    cx.printer.print_message(format_args!("proposed for {count}; no request was sent"));
    cx.printer.print_hint(format_args!("a second user must run `rpc approve {}`", path.display()));
    Ok(CommandExitCode::Passed)
}
