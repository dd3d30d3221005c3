//! Renders a proposal with everything that it will do, for review before approval.

use muster_ddl::ActionSchema;
use muster_display::columns::format_columns;
use muster_display::printer::{BAD, STRONG, WARNING};
use muster_display::time::format_time_millis;
use muster_display::{TextPage, node_count_text};
use muster_wire::approval::OpenProposal;

/// `action` is its DDL, if known; `over` marks an expired proposal.
pub fn render_proposal(
    proposed: &OpenProposal,
    action: Option<&ActionSchema>,
    is_expired: bool,
    width: usize,
) -> String {
    let (proposal, caller) = (&proposed.proposal, &proposed.caller);
    let expiry = format_time_millis(proposal.expires_at);
    let mut page = TextPage::default();
    page.push_line(format_args!(
        "{STRONG}{}{STRONG:#} proposes to call {STRONG}{} {}{STRONG:#}",
        proposal.caller, proposal.agent, proposal.action
    ));
    if let Some(action) = action {
        page.push_line(format_args!("  {}", action.description()));
    }
    page.push_gap();
    for (name, value) in &proposal.inputs.clear {
        page.push_value(&format!("  {name}: "), value, width);
    }
    for name in proposal.inputs.secret.keys() {
        page.push_line(format_args!("  {name}: {WARNING}secret, not shown{WARNING:#}"));
    }
    if proposal.inputs.clear.is_empty() && proposal.inputs.secret.is_empty() {
        page.push_line("  no inputs");
    }
    page.push_gap();
    let names: Vec<&str> = proposal.nodes.iter().map(AsRef::as_ref).collect();
    let nodes = node_count_text(names.len());
    page.push_line(format_args!("on {nodes} of {}:", proposal.collective));
    page.push_text(format_columns(&names, 2, width));
    page.push_gap();
    page.push_line(format_args!("once on each node, valid until {expiry}"));
    page.push_line(format_args!("proposed with the key {}", caller.key));
    if is_expired {
        page.push_line(format_args!(
            "{BAD}the proposal has expired: nodes no longer accept it{BAD:#}"
        ));
    }
    page.into_text()
}
