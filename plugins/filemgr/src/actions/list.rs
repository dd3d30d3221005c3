//! `list`: what is in a directory.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::{File, word};
use crate::fence::{Fence, failed};

/// Most entries of one answer.
const ENTRIES: usize = 2000;

pub(crate) struct List(pub(crate) Arc<Fence>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    entries: Vec<Entry>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Entry {
    name: String,
    kind: String,
    mode: String,
    size: u64,
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = File;
    type Output = Output;

    async fn run(&self, cx: &Context, input: File) -> Result<Output, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let admitted = fence.admit(&*system, &input.path, true)?;
            let Some(directory) = admitted.open()? else {
                return Err(ActionError::failed(format!(
                    "{} does not exist",
                    admitted.path.display()
                )));
            };
            let names = directory.entries().map_err(|error| failed(&error))?;
            let count = names.len();
            let look = |name: String| {
                // One that went away meanwhile is left out.
                let found = directory.status_of(&name).ok()??.metadata;
                Some(Entry {
                    name,
                    kind: word(found.kind).to_owned(),
                    mode: format!("{:04o}", found.mode),
                    size: found.size,
                })
            };
            let entries = names.into_iter().take(ENTRIES).filter_map(look).collect();
            Ok(Output { count, entries })
        })
        .await?
    }
}
