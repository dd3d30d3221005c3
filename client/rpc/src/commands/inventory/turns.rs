//! Asks many nodes for all about them, some at a time: however large the fleet, only so many answers are in memory.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;

use super::super::context::Context;
use super::super::inquiry;
use crate::ask::{AskError, Fleet, Found, Plan, Progress};
use crate::error::Error;
use crate::report::{Gap, Reply, RequestStats};

/// So many nodes are asked at a time.
const AT_A_TIME: usize = 128;
/// So many names are told of those that did not answer.
const SHOWN: usize = 10;

/// What an answer was good for.
pub enum Taken {
    /// It was used.
    Good,
    /// It was not, and why.
    Bad(String),
}

/// Asks the nodes, and hands each answer over, in the order of names.
pub async fn ask(
    fleet: &Fleet,
    plan: &Plan<'_>,
    found: Found,
    cx: Context<'_>,
    mut take: impl FnMut(Reply) -> Result<Taken, Error>,
) -> Result<RequestStats, Error> {
    let mut total = RequestStats {
        discovered: found.nodes.len(),
        gaps: found.stats.gaps.clone(),
        ..RequestStats::default()
    };
    let waiting = Progress::new(cx.printer, true).calling(found.nodes.len());
    let nodes: Vec<Identity> = found.nodes.into_iter().collect();
    for some in nodes.chunks(AT_A_TIME) {
        let asked = Found::named(some.iter().cloned().collect());
        let quiet = Progress::new(cx.printer, false);
        let mut report = inquiry::ask(fleet, plan, asked, &quiet).await?;
        report.replies.sort_by(|a, b| a.node.cmp(&b.node));
        for reply in report.replies {
            match waiting.aside(|| take(reply))? {
                Taken::Good => total.ok += 1,
                Taken::Bad(complaint) => {
                    waiting.aside(|| cx.printer.error(complaint));
                    total.failed += 1;
                }
            }
        }
        total.missing.extend(report.stats.missing);
        total.gaps.extend(report.stats.gaps);
        waiting.count(total.responses() + total.missing.len());
        if total.gaps.contains(&Gap::Interrupted) {
            return Err(AskError::Interrupted.into());
        }
    }
    waiting.over();
    Ok(total)
}

/// Says who did not answer, and what follows from that.
pub fn tell(total: &RequestStats, so: &str, cx: Context<'_>) {
    if !total.missing.is_empty() {
        let names: BTreeSet<&str> = total
            .missing
            .iter()
            .take(SHOWN)
            .map(Identity::as_str)
            .collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let more = total.missing.len().saturating_sub(SHOWN);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        cx.printer
            .warn(format_args!("no answer, {so}: {names}{more}"));
    }
    for gap in &total.gaps {
        cx.printer
            .warn(format_args!("incomplete: {}", gap.sentence()));
    }
}
