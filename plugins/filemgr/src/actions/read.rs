//! `read`: a piece of a text file, from its beginning or its end.

use std::sync::Arc;

use muster_api::system::FileKind;
use muster_api::system::confined::ConfinedFile;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use crate::fence::{Fence, failed};

/// Largest file of which a piece is read.
const READ: u64 = 64 * 1024 * 1024;
/// Most bytes of one answer.
const PIECE: u64 = 64 * 1024;

pub(crate) struct Read(pub(crate) Arc<Fence>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    path: String,
    /// Where to begin; from the end when negative.
    offset: i64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    text: String,
    size: u64,
    offset: u64,
}

impl Action for Read {
    const NAME: &'static str = "read";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let admitted = fence.admit(&*system, &input.path, true)?;
            let file = admitted.open()?;
            let is_file = |file: &ConfinedFile| file.status().metadata.kind == FileKind::File;
            let Some(file) = file.filter(is_file) else {
                return Err(ActionError::failed(format!(
                    "{} is no file",
                    admitted.path.display()
                )));
            };
            let content = file.read(READ).map_err(|error| failed(&error))?;
            let size = content.len() as u64;
            let begin = u64::try_from(input.offset)
                .unwrap_or_else(|_| size.saturating_sub(input.offset.unsigned_abs()))
                .min(size);
            let end = begin.saturating_add(input.bytes.min(PIECE));
            let range = usize::try_from(begin).unwrap_or(usize::MAX)
                ..usize::try_from(end.min(size)).unwrap_or(usize::MAX);
            let piece = content.get(range).unwrap_or_default();
            Ok(Output {
                text: String::from_utf8_lossy(piece).into_owned(),
                size,
                offset: begin + piece.len() as u64,
            })
        })
        .await?
    }
}
