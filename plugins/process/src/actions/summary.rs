//! `summary`: the processes in numbers, and those that use the most memory and processor time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::list::Row;
use super::{Seen, Wanted};

pub(crate) struct Summary;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    /// How many of the largest are told.
    top: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    states: BTreeMap<String, usize>,
    users: BTreeMap<String, usize>,
    by_memory: Vec<Row>,
    by_cpu: Vec<Row>,
}

impl Action for Summary {
    const NAME: &'static str = "summary";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let system = Arc::clone(&cx.system);
        let mut found = cx
            .blocking(move |cancel| Wanted::default().find(&*system, &cancel))
            .await??;
        let top = input.top.min(50);
        let (mut states, mut users) = (BTreeMap::new(), BTreeMap::new());
        for seen in &found {
            *states.entry(seen.stat.state.to_string()).or_default() += 1;
            *users.entry(seen.user.clone()).or_default() += 1;
        }
        let largest = |found: &[Seen]| found.iter().take(top).map(Row::from).collect();
        found.sort_by_key(|seen| Reverse(seen.memory));
        let by_memory = largest(&found);
        found.sort_by_key(|seen| Reverse(seen.stat.ticks));
        Ok(Output {
            count: found.len(),
            states,
            users,
            by_memory,
            by_cpu: largest(&found),
        })
    }
}
