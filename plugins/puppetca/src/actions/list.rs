//! `list`: the names that the authority knows.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::at;
use crate::authority::State;
use crate::desk::Desk;

/// Names of each kind in one answer.
const MOST: usize = 5000;

pub(crate) struct List(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    state: Which,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Which {
    All,
    Requested,
    Signed,
    Revoked,
}

#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    requests: Vec<String>,
    signed: Vec<String>,
    revoked: Vec<String>,
    count: usize,
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let state = match input.state {
            Which::All => None,
            Which::Requested => Some(State::Requested),
            Which::Signed => Some(State::Signed),
            Which::Revoked => Some(State::Revoked),
        };
        at(&self.0, cx, move |_, ca| {
            let entries = ca.list(state)?;
            let mut output = Output {
                count: entries.len(),
                ..Output::default()
            };
            for entry in entries {
                match entry.state {
                    State::Requested => output.requests.push(entry.name),
                    State::Signed => output.signed.push(entry.name),
                    State::Revoked => output.revoked.push(entry.name),
                }
            }
            for names in [
                &mut output.requests,
                &mut output.signed,
                &mut output.revoked,
            ] {
                names.sort_unstable();
                names.truncate(MOST);
            }
            Ok(output)
        })
        .await
    }
}
