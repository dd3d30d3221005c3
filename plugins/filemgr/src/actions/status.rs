//! `status`: what a path is. Nothing there is an answer.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use md5::Md5;
use muster_api::system::FileKind;
use muster_api::{Action, ActionError, Context};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{File, word};
use crate::fence::{AdmittedPath, Fence, failed};

/// Largest file with checksums, in bytes.
const SUMMED: u64 = 64 * 1024 * 1024;

pub(crate) struct Status(pub(crate) Arc<Fence>);

#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    present: bool,
    kind: Option<String>,
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    /// In seconds since 1970.
    modified: Option<u64>,
    target: Option<String>,
    md5: Option<String>,
    sha256: Option<String>,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = File;
    type Output = Output;

    async fn run(&self, cx: &Context, input: File) -> Result<Output, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let admitted = fence.admit(&*system, &input.path, false)?;
            let Some(entry) = &admitted.entry else {
                return Ok(Output::default());
            };
            let Some(found) = entry.status().map_err(|error| failed(&error))? else {
                return Ok(Output::default());
            };
            let found = found.metadata;
            let target = match found.kind {
                FileKind::Link => Some(entry.read_link().map_err(|error| failed(&error))?),
                _ => None,
            };
            let content = match found.kind {
                FileKind::File => content(&admitted)?,
                _ => None,
            };
            let content = content.as_deref();
            let modified = found.modified.duration_since(UNIX_EPOCH);
            Ok(Output {
                present: true,
                kind: Some(word(found.kind).to_owned()),
                mode: Some(format!("{:04o}", found.mode)),
                uid: Some(found.uid),
                gid: Some(found.gid),
                size: Some(found.size),
                modified: modified.ok().map(|since| since.as_secs()),
                target: target.map(|target| target.display().to_string()),
                md5: content.map(sum::<Md5>),
                sha256: content.map(sum::<Sha256>),
            })
        })
        .await?
    }
}

/// The content for the checksums. A file that not every user may read has none: a checksum proves a guess of the content.
fn content(admitted: &AdmittedPath) -> Result<Option<Vec<u8>>, ActionError> {
    let Some(file) = admitted.open()? else {
        return Ok(None);
    };
    let metadata = file.status().metadata;
    if metadata.kind != FileKind::File || metadata.size > SUMMED || !file.is_world_readable() {
        return Ok(None);
    }
    file.read(SUMMED).map(Some).map_err(|error| failed(&error))
}

fn sum<D: Digest>(content: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in D::digest(content) {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
