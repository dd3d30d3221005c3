//! `list`: the processes of the node.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::{Seen, Wanted};

/// Most processes of one answer, and most characters of a command line.
const TOLD: usize = 1000;
const LINE: usize = 400;

pub(crate) struct List;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pattern: Option<String>,
    user: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    processes: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Row {
    pid: u32,
    parent: u32,
    user: String,
    state: String,
    memory_bytes: u64,
    cpu_seconds: f64,
    command: String,
}

impl From<&Seen> for Row {
    fn from(seen: &Seen) -> Self {
        Self {
            pid: seen.process.pid,
            parent: seen.stat.parent,
            user: seen.user.clone(),
            state: seen.stat.state.to_string(),
            memory_bytes: seen.memory,
            cpu_seconds: seen.seconds(),
            command: seen.line().chars().take(LINE).collect(),
        }
    }
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let wanted = Wanted::read(input.pattern.as_deref(), input.user, None)?;
        let system = Arc::clone(&cx.system);
        let found = cx
            .blocking(move |cancel| wanted.find(&*system, &cancel))
            .await??;
        Ok(Output {
            count: found.len(),
            processes: found.iter().take(TOLD).map(Row::from).collect(),
        })
    }
}
