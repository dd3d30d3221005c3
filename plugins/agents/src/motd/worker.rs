//! Renders templates in a process of its own, because one step of a template can double a value: neither a limit of steps nor one of the output bounds
//! its memory. A template that exceeds the limits ends that process; the others are rendered by the next one. Does not read or write files.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::base::error_chain;
use muster_api::system::command::{OutputListener, OutputStream};
use muster_api::system::real::RealSystem;
use muster_api::system::{Command, System as _, SystemError};
use muster_engine::types::motd_fragment::FragmentTarget;
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use serde::{Deserialize, Serialize};

use crate::motd::template::{
    FragmentOutcome, FragmentTemplate, TemplateError, TemplateValues, render_fragments,
};

/// Most memory of the process that renders, in bytes: several times what the largest facts need.
const MAX_WORKER_BYTES: u64 = 64 * 1024 * 1024;
/// Processor time of one fragment, in seconds.
const FRAGMENT_CPU_SECONDS: u64 = 1;
/// The limits, in messages.
pub(crate) const LIMITS: &str = "64 MiB of memory or 1 s of processor time";
/// How long a whole text may take.
pub(crate) const TEXT_TIMEOUT: Duration = Duration::from_secs(30);
/// Code of a worker that was ended because it did not end: that of timeout(1).
const TIMEOUT_CODE: i32 = 124;
/// Largest order of the daemon to its worker: fragments, facts, classes and state.
const MAX_ORDER_BYTES: u64 = 32 * 1024 * 1024;
/// Largest output of a worker: a text, in JSON.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Most templates that are remembered as ended.
const MAX_ENDED: usize = 256;

/// What a worker renders.
#[derive(Debug, Serialize, Deserialize)]
struct RenderOrder<F, V> {
    target: String,
    fragments: F,
    values: V,
    /// Bytes of the text before these fragments.
    size: usize,
}

/// Where templates are rendered.
#[derive(Debug)]
pub(crate) enum RenderPlace {
    /// In processes of this program, called as `PROGRAM render-fragments`.
    Worker(PathBuf),
    /// In this process.
    #[cfg(test)]
    Here,
}

/// Starts workers, and remembers the templates that ended one.
#[derive(Debug)]
pub(crate) struct RenderWorkers {
    place: RenderPlace,
    /// Templates that ended a worker are not tried again every few seconds; an edit or a restart tries them again.
    ended: Mutex<BTreeMap<String, TemplateError>>,
}

impl RenderWorkers {
    pub(crate) fn new(place: RenderPlace) -> Self {
        Self { place, ended: Mutex::default() }
    }

    /// The outcome of each fragment, in order. Blocks, at most for about [`TEXT_TIMEOUT`].
    pub(crate) fn render(
        &self,
        target: FragmentTarget,
        fragments: &[FragmentTemplate],
        values: &TemplateValues,
    ) -> Vec<FragmentOutcome> {
        let program = match &self.place {
            #[cfg(test)]
            RenderPlace::Here => return render_fragments(target, fragments, values, 0).collect(),
            RenderPlace::Worker(_) if fragments.iter().all(|fragment| fragment.is_literal) => {
                return render_fragments(target, fragments, values, 0).collect();
            }
            RenderPlace::Worker(program) => program.display().to_string(),
        };
        let deadline = Instant::now() + TEXT_TIMEOUT;
        let mut outcomes: Vec<FragmentOutcome> = Vec::new();
        while let Some(rest) = fragments.get(outcomes.len()..).filter(|rest| !rest.is_empty()) {
            let ready =
                rest.iter().take_while(|fragment| self.ended_by(fragment).is_none()).count();
            if let (0, Some(error)) = (ready, rest.first().and_then(|first| self.ended_by(first))) {
                outcomes.push(Err(error));
                continue;
            }
            if Instant::now() >= deadline {
                outcomes.push(Err(TemplateError::TooSlow));
                continue;
            }
            let order = RenderOrder {
                target: target.as_str().to_owned(),
                fragments: rest.get(..ready).unwrap_or_default(),
                values,
                size: outcomes.iter().flatten().map(String::len).sum(),
            };
            let (rendered, end) = match serde_json::to_vec(&order) {
                Ok(stdin) => run_program(&program, stdin, deadline),
                Err(error) => (Vec::new(), TemplateError::Worker(error.to_string())),
            };
            let is_complete = rendered.len() >= ready;
            outcomes.extend(rendered.into_iter().take(ready));
            if let (false, Some(fragment)) = (is_complete, fragments.get(outcomes.len())) {
                self.remember_ended(fragment, &end);
                outcomes.push(Err(end));
            }
        }
        outcomes
    }

    fn ended_by(&self, fragment: &FragmentTemplate) -> Option<TemplateError> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.get(&fragment.content).cloned().filter(|_| !fragment.is_literal)
    }

    fn remember_ended(&self, fragment: &FragmentTemplate, end: &TemplateError) {
        if let TemplateError::Ended { .. } = end {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() >= MAX_ENDED {
                ended.clear();
            }
            ended.insert(fragment.content.clone(), end.clone());
        }
    }
}

/// The outcomes of the fragments that the program rendered, and why it did not render more.
fn run_program(
    program: &str,
    stdin: Vec<u8>,
    deadline: Instant,
) -> (Vec<FragmentOutcome>, TemplateError) {
    // The output of a program that is ended by its timeout is kept as well.
    let answer = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&answer);
    let listener = OutputListener::new(move |stream, bytes| {
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        if stream == OutputStream::Stdout && received.len() + bytes.len() <= MAX_ANSWER_BYTES {
            received.extend_from_slice(bytes);
        }
    });
    let command = Command {
        stdin,
        timeout: Some(deadline.saturating_duration_since(Instant::now())),
        output_limit: 0,
        listener: Some(listener),
        ..Command::new([program, "render-fragments"])
    };
    let end = match RealSystem::new("/".into()).run_command(&command) {
        Ok(output) => TemplateError::Ended { code: output.code },
        Err(SystemError::Timeout { .. }) => TemplateError::Ended { code: TIMEOUT_CODE },
        Err(error) => TemplateError::Worker(error_chain(&error)),
    };
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    // A last line without its end is that of a fragment that was not finished.
    let lines = answer.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    (lines.map_while(|line| serde_json::from_slice(line).ok()).collect(), end)
}

/// The process that renders: reads an order, and writes one line for each fragment as soon as it is rendered.
///
/// # Errors
/// The order cannot be read, or the limits cannot be set.
pub fn run_worker(input: impl Read, mut output: impl Write) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_DATA, MAX_WORKER_BYTES, MAX_WORKER_BYTES)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    limit_processor_time()?;
    let order: RenderOrder<Vec<FragmentTemplate>, TemplateValues> =
        serde_json::from_reader(input.take(MAX_ORDER_BYTES))?;
    let target = FragmentTarget::from_name(&order.target).unwrap_or(FragmentTarget::Motd);
    for outcome in render_fragments(target, &order.fragments, &order.values, order.size) {
        serde_json::to_writer(&mut output, &outcome)?;
        output.write_all(b"\n")?;
        output.flush()?;
        limit_processor_time()?;
    }
    Ok(())
}

/// Limits the processor time of the next fragment. The kernel counts whole seconds.
fn limit_processor_time() -> io::Result<()> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let used = used.user_time().tv_sec() + used.system_time().tv_sec();
    let limit = u64::try_from(used).unwrap_or(0) + 1 + FRAGMENT_CPU_SECONDS;
    Ok(setrlimit(Resource::RLIMIT_CPU, limit, nix::libc::RLIM_INFINITY)?)
}
