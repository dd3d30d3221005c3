//! Sample results for the tests of renderers, and how they read the output.

use std::time::Duration;

use muster_client::{NodeReply, RequestReport, RequestStats};

#[path = "../../../display/src/testing.rs"]
mod output;
#[path = "../../../src/testing.rs"]
mod samples;

pub(crate) use output::{plain, printer};
pub(crate) use samples::{ended, outcome, ran, reply, runs};

/// In columns.
pub(crate) const WIDTH: usize = muster_display::screen::DEFAULT_COLUMNS;

pub(crate) fn is_within_width(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= WIDTH)
}

/// A report of these replies, from all nodes that received the request.
pub(crate) fn report(agent: &str, action: &str, replies: Vec<NodeReply>) -> RequestReport {
    let ok = replies.iter().filter(|reply| reply.is_ok()).count();
    let stats = RequestStats {
        requests: vec!["01890a5d-ac96-774b-bcce-b302099a8057".to_owned()],
        discovered: replies.len(),
        ok,
        failed: replies.len() - ok,
        discovering: Duration::from_micros(309_678),
        publishing: Duration::from_micros(1_264),
        waiting: Duration::from_micros(36_850),
        started: 1_767_225_600_017,
        ..RequestStats::default()
    };
    RequestReport {
        noop: false,
        agent: agent.to_owned(),
        action: action.to_owned(),
        replies,
        stats,
        ..RequestReport::default()
    }
}
