//! `tail`: returns the output of a job from an offset, and streams further output to callers that subscribe to progress.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::system::command::OutputStream;
use muster_api::{ActionError, CallContext};
use muster_contract::shell::{ShellStream, ShellTailInput, ShellTailOutput};
use tokio::time::Instant;

use crate::shell::jobs::{ShellJobRecord, ShellJobStore};
use crate::shell::output::{LineSplitter, emit_line};

/// Largest chunk of output in one reply, in bytes.
const MAX_CHUNK_BYTES: u64 = 64 * 1024;
/// Poll interval while a job is followed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn tail_job(
    jobs: Arc<ShellJobStore>,
    cx: CallContext,
    input: ShellTailInput,
) -> Result<ShellTailOutput, ActionError> {
    let stream = match input.stream {
        ShellStream::Stdout => OutputStream::Stdout,
        ShellStream::Stderr => OutputStream::Stderr,
    };
    let record = jobs.get_for_caller(&input.job, &cx.owner())?;
    let size = jobs.stream_size(&record, stream);
    let offset = u64::try_from(input.offset)
        .unwrap_or_else(|_| size.saturating_sub(input.offset.unsigned_abs()));
    let system = Arc::clone(&cx.system);
    let lines = LineSplitter::default();
    let mut follower = StreamFollower { jobs, system, stream, offset, record, lines };
    if input.follow && cx.progress.is_wanted() {
        return follower.follow_stream(&cx).await;
    }
    cx.run_blocking_in_context(move |_| {
        let (chunk, is_running) = follower.read_chunk()?;
        let text = String::from_utf8_lossy(&chunk).into_owned();
        let end = chunk.is_empty() && !is_running;
        Ok(ShellTailOutput { text, offset: follower.offset, end })
    })
    .await
}

/// Reads a stream of a job in chunks.
struct StreamFollower {
    jobs: Arc<ShellJobStore>,
    system: Arc<dyn System>,
    stream: OutputStream,
    offset: u64,
    record: ShellJobRecord,
    lines: LineSplitter,
}

impl StreamFollower {
    /// Reads the next chunk. Returns it with whether more output may follow. Blocks.
    fn read_chunk(&mut self) -> Result<(Vec<u8>, bool), ActionError> {
        // Checked before the read, so that output printed before the exit is not missed.
        let is_running = ShellJobStore::is_running(&self.record, &*self.system);
        let chunk =
            self.jobs.read_stream(&self.record, self.stream, self.offset, MAX_CHUNK_BYTES)?;
        self.offset += chunk.len() as u64;
        Ok((chunk, is_running))
    }

    /// Streams lines until the job ends or the call's time is nearly over. The reply contains the offset to continue at.
    async fn follow_stream(mut self, cx: &CallContext) -> Result<ShellTailOutput, ActionError> {
        loop {
            let (mut follower, chunk, is_running) = cx
                .run_blocking_in_context(move |_| {
                    let (chunk, is_running) = self.read_chunk()?;
                    Ok((self, chunk, is_running))
                })
                .await?;
            let emit = |line: String| emit_line(&cx.progress, follower.stream, &line);
            follower.lines.push_bytes(&chunk, emit);
            let end = chunk.is_empty() && !is_running;
            if end || Instant::now() >= cx.deadline {
                follower.lines.flush_line(emit);
                return Ok(ShellTailOutput { text: String::new(), offset: follower.offset, end });
            }
            if chunk.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
                }
            }
            self = follower;
        }
    }
}
