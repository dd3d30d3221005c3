//! `summary`: counts processes, and lists those that use the most memory and processor time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::process::{ProcessRow, ProcessSummaryInput, ProcessSummaryOutput};

use super::{ProcessDetails, ProcessFilter};

pub(crate) fn summarise_processes(
    _: &NoState,
    cx: &BlockingContext,
    ProcessSummaryInput { top }: ProcessSummaryInput,
) -> Result<ProcessSummaryOutput, ActionError> {
    let mut found = ProcessFilter::default().find_processes(&*cx.system, &cx.cancel_flag)?;
    let top = top.min(50);
    let (mut states, mut users) = (BTreeMap::new(), BTreeMap::new());
    for process in &found {
        *states.entry(process.stat.state.to_string()).or_default() += 1;
        *users.entry(process.user.clone()).or_default() += 1;
    }
    let largest = |found: &[ProcessDetails]| found.iter().take(top).map(ProcessRow::from).collect();
    found.sort_by_key(|process| Reverse(process.memory));
    let by_memory = largest(&found);
    found.sort_by_key(|process| Reverse(process.stat.ticks));
    Ok(ProcessSummaryOutput {
        count: found.len(),
        states,
        users,
        by_memory,
        by_cpu: largest(&found),
    })
}
