//! What another wants to ask, in plain words: everything that will be done, before somebody approves it.

use muster_ddl::Action;
use muster_wire::approval::OpenProposal;

use super::columns::columns;
use super::page::Page;
use super::printable::line;
use super::value::{hung, lines};
use crate::clock;
use crate::printer::{BAD, STRONG, WARNING};

/// The page of a proposal. `action` is its schema, where it is known here; `over`: no node takes it any more.
pub fn page(proposed: &OpenProposal, action: Option<&Action>, over: bool, width: usize) -> String {
    let (proposal, caller) = (&proposed.proposal, &proposed.caller);
    let until = clock::written(proposal.expires_at / 1000);
    let mut page = Page::default();
    page.line(format_args!(
        "{STRONG}{}{STRONG:#} wants to ask {STRONG}{} {}{STRONG:#}",
        proposal.caller, proposal.agent, proposal.action
    ));
    if let Some(action) = action {
        page.line(format_args!("  {}", line(action.description())));
    }
    page.gap();
    for (name, value) in &proposal.inputs.clear {
        let lead = format!("  {}: ", line(name));
        let room = width.saturating_sub(lead.chars().count());
        for line in hung(&lead, lines(value, room)) {
            page.line(line);
        }
    }
    for name in proposal.inputs.secret.keys() {
        page.line(format_args!(
            "  {}: {WARNING}a secret that you are not shown{WARNING:#}",
            line(name)
        ));
    }
    if proposal.inputs.clear.is_empty() && proposal.inputs.secret.is_empty() {
        page.line("  without inputs");
    }
    page.gap();
    let names: Vec<&str> = proposal.nodes.iter().map(AsRef::as_ref).collect();
    let nodes = if names.len() == 1 { "node" } else { "nodes" };
    page.line(format_args!(
        "on {} {nodes} of {}:",
        names.len(),
        proposal.collective
    ));
    page.add(columns(&names, 2, width));
    page.gap();
    page.line(format_args!("once on each, until {until}"));
    page.line(format_args!("proposed with the key {}", caller.key));
    if over {
        page.line(format_args!(
            "{BAD}its time is over: no node takes it any more{BAD:#}"
        ));
    }
    page.text()
}
