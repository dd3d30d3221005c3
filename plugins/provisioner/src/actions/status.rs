//! `status`: where every node stands, and who leads.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::desk::Desk;
use crate::record::{Record, What};

/// Most nodes of one answer.
const TOLD: usize = 1000;

pub(crate) struct Status(pub(crate) Desk);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    node: Option<String>,
    state: Option<String>,
    history: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    leader: String,
    counts: Map<String, Value>,
    nodes: Vec<Row>,
    more: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Row {
    node: String,
    state: String,
    /// The step that is under way or comes next; empty when there is none.
    step: String,
    attempt: u32,
    /// Steps that were done.
    done: Vec<String>,
    paused: bool,
    error: String,
    master: String,
    serial: String,
    since: u64,
    changed: u64,
    history: Vec<Entry>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct Entry {
    at: u64,
    step: String,
    what: String,
    words: String,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Input;
    type Output = Output;

    async fn run(&self, _: &Context, input: Input) -> Result<Output, ActionError> {
        let mut counts = Map::new();
        let mut nodes = Vec::new();
        let mut more = 0;
        for record in self.0.all().await? {
            let word = record.state.word();
            let counted = counts.get(word).and_then(Value::as_u64).unwrap_or_default();
            counts.insert(word.to_owned(), (counted + 1).into());
            let wanted = input.state.as_deref().is_none_or(|state| state == word)
                && input
                    .node
                    .as_deref()
                    .is_none_or(|node| node == record.identity.as_str());
            if wanted && nodes.len() < TOLD {
                nodes.push(row(&record, input.history));
            } else if wanted {
                more += 1;
            }
        }
        let leader = self.0.leader().await?;
        Ok(Output {
            leader: leader.map_or(String::new(), |leader| leader.host.to_string()),
            counts,
            nodes,
            more,
        })
    }
}

fn row(record: &Record, history: bool) -> Row {
    let text = |name: &str| record.text(name).unwrap_or_default().to_owned();
    let entry = |happened: &crate::record::Happened| Entry {
        at: happened.at,
        step: happened.step.clone(),
        what: word(happened.what).to_owned(),
        words: happened.words.clone(),
    };
    let current = record.current.as_ref();
    Row {
        node: record.identity.to_string(),
        state: record.state.word().to_owned(),
        step: current.map_or(String::new(), |at| at.step.to_string()),
        attempt: current.map_or(0, |at| at.attempt),
        done: record.done.iter().map(ToString::to_string).collect(),
        paused: record.paused,
        error: record.error.clone().unwrap_or_default(),
        master: text("master"),
        serial: text("serial"),
        since: record.since,
        changed: record.changed,
        history: if history {
            record.history.iter().map(entry).collect()
        } else {
            Vec::new()
        },
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Began => "began",
        What::Done => "done",
        What::Failed => "failed",
        What::Deferred => "deferred",
        What::Asked => "asked",
    }
}
