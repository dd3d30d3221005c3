//! `dns`: what a name resolves to, by the node's own resolver: its files, then its name servers.

use std::collections::BTreeSet;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use super::{millis, patience};

pub(crate) struct Dns;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    name: String,
    /// In seconds.
    timeout: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    addresses: Vec<String>,
    ms: f64,
}

impl Action for Dns {
    const NAME: &'static str = "dns";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let begun = Instant::now();
        let patience = patience(cx, input.timeout);
        let name = &input.name;
        let found = timeout(patience, lookup_host((name.as_str(), 0))).await;
        let found = found
            .map_err(|_| {
                let seconds = patience.as_secs_f64();
                ActionError::failed(format!("no answer for {name} within {seconds} s"))
            })?
            .map_err(|error| ActionError::failed(format!("cannot resolve {name}: {error}")))?;
        let addresses: BTreeSet<String> = found.map(|address| address.ip().to_string()).collect();
        Ok(Output {
            addresses: addresses.into_iter().collect(),
            ms: millis(begun.elapsed()),
        })
    }
}
