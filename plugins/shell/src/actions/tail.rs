//! `tail`: what a job has printed, from some place on; and, for callers who want to hear it, what it prints from then on.

use std::sync::Arc;
use std::time::Duration;

use muster_api::progress::Sink;
use muster_api::system::System;
use muster_api::system::command::Stream;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::jobs::{Jobs, Record};
use crate::output::{Lines, tell};

/// Bytes of one answer.
const PIECE: u64 = 64 * 1024;
/// How often a job that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Following ends so long before the call's time is up.
const LAST_WORDS: Duration = Duration::from_secs(3);

pub(crate) struct Tail(pub(crate) Arc<Jobs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    job: String,
    stream: Kind,
    /// Where to begin; from the end when negative.
    offset: i64,
    /// Whether to go on telling until the job ends.
    follow: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Kind {
    Stdout,
    Stderr,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    text: String,
    offset: u64,
    end: bool,
}

impl Action for Tail {
    const NAME: &'static str = "tail";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let stream = match input.stream {
            Kind::Stdout => Stream::Stdout,
            Kind::Stderr => Stream::Stderr,
        };
        let mut follower = Follower {
            jobs: Arc::clone(&self.0),
            system: Arc::clone(&cx.system),
            sink: cx.progress.clone(),
            stream,
            offset: 0,
            record: self.0.get_of(&input.job, &cx.caller)?,
            lines: Lines::default(),
        };
        let size = follower.jobs.size(&follower.record, stream);
        follower.offset = u64::try_from(input.offset)
            .unwrap_or_else(|_| size.saturating_sub(input.offset.unsigned_abs()));
        if input.follow && cx.progress.is_wanted() {
            return follower.follow(cx).await;
        }
        let (text, end) = cx
            .blocking(move |_| {
                follower.piece().map(|(piece, talking)| {
                    let end = piece.is_empty() && !talking;
                    let offset = follower.offset;
                    ((String::from_utf8_lossy(&piece).into_owned(), offset), end)
                })
            })
            .await??;
        let (text, offset) = text;
        Ok(Output { text, offset, end })
    }
}

/// A stream of a job that is read piece by piece.
struct Follower {
    jobs: Arc<Jobs>,
    system: Arc<dyn System>,
    sink: Sink,
    stream: Stream,
    offset: u64,
    record: Record,
    lines: Lines,
}

impl Follower {
    /// The next piece, and whether more can come. Blocks.
    fn piece(&mut self) -> Result<(Vec<u8>, bool), ActionError> {
        // Asked first: what is printed before the end is read after it.
        let talking = Jobs::is_talking(&self.record, &*self.system);
        let piece = self
            .jobs
            .read(&self.record, self.stream, self.offset, PIECE)?;
        self.offset += piece.len() as u64;
        Ok((piece, talking))
    }

    /// Tells line by line until the job has ended, or the call's time is nearly up. The answer says where to go on.
    async fn follow(mut self, cx: &Context) -> Result<Output, ActionError> {
        let last = cx.deadline - LAST_WORDS;
        loop {
            let (mut back, piece, talking) = cx
                .blocking(move |_| {
                    let piece = self.piece();
                    piece.map(|(piece, talking)| (self, piece, talking))
                })
                .await??;
            let (sink, stream) = (back.sink.clone(), back.stream);
            back.lines.add(&piece, |line| tell(&sink, stream, &line));
            let end = piece.is_empty() && !talking;
            if end || Instant::now() >= last {
                back.lines.end(|line| tell(&sink, stream, &line));
                return Ok(Output {
                    text: String::new(),
                    offset: back.offset,
                    end,
                });
            }
            if piece.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
                }
            }
            self = back;
        }
    }
}
