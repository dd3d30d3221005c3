//! Interaction with a resident program over pipes. Reads and writes are in threads, so a blocked program does not block the caller.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::process::{CANCEL_POLL_INTERVAL, PreparedProcess, ProcessGroup};
use crate::command::CancelFlag;
use crate::interactive::InteractiveProcess;
use crate::process::OUTPUT_DRAIN_TIMEOUT;
use crate::{Command, SystemError, SystemResult};

const MAX_STDERR_TAIL_BYTES: usize = 4096;

type LineResult = io::Result<String>;

pub(super) struct RealInteractiveProcess {
    program: String,
    child: Child,
    group: ProcessGroup,
    input: Sender<String>,
    output: Receiver<LineResult>,
    stderr: StderrTail,
}

struct StderrTail {
    tail: Arc<Mutex<Vec<u8>>>,
    /// Never receives a value; disconnects when standard error is closed.
    closed: Receiver<Infallible>,
}

impl fmt::Debug for RealInteractiveProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Timeout and cancellation of `command` do not apply; its output limit applies to each line.
pub(super) fn start_process(
    prepared: &PreparedProcess,
    command: &Command,
) -> SystemResult<RealInteractiveProcess> {
    let child = prepared.spawn(Stdio::piped(), Stdio::piped(), Stdio::piped());
    let mut child = child.map_err(command.start_error())?;
    let group = ProcessGroup::from_child(&child).map_err(command.start_error())?;
    match spawn_pipe_threads(&mut child, command.output_limit) {
        Ok((input, output, stderr)) => Ok(RealInteractiveProcess {
            program: command.program_name().to_owned(),
            child,
            group,
            input,
            output,
            stderr,
        }),
        Err(error) => {
            group.signal(Signal::SIGKILL);
            let _ = child.wait();
            Err(command.start_error()(error))
        }
    }
}

type ProcessPipes = (Sender<String>, Receiver<LineResult>, StderrTail);

/// Starts the three threads. Each ends with its pipe.
fn spawn_pipe_threads(child: &mut Child, max_line_bytes: usize) -> io::Result<ProcessPipes> {
    let missing_pipe = || io::Error::other("a pipe is missing");
    let stdin = child.stdin.take().ok_or_else(missing_pipe)?;
    let stdout = child.stdout.take().ok_or_else(missing_pipe)?;
    let stderr = child.stderr.take().ok_or_else(missing_pipe)?;
    let (input, input_lines) = channel();
    let (line_sender, output) = sync_channel(4);
    let (closed_sender, closed) = channel();
    let tail = Arc::default();
    let stderr_tail = StderrTail { tail: Arc::clone(&tail), closed };
    let thread = |name: &str| thread::Builder::new().name(name.to_owned());
    thread("talk-write").spawn(move || write_lines(stdin, &input_lines))?;
    thread("talk-read").spawn(move || read_lines(stdout, max_line_bytes, &line_sender))?;
    thread("talk-stderr").spawn(move || keep_stderr_tail(stderr, &tail, closed_sender))?;
    Ok((input, output, stderr_tail))
}

/// Write errors are ignored: the exit of the program is detected by the end of its output.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(stdout: ChildStdout, max_line_bytes: usize, lines: &SyncSender<LineResult>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = next_line(&mut stdout, max_line_bytes);
        let is_last = !matches!(line, Ok(Some(_)));
        if let Some(line) = line.transpose()
            && lines.send(line).is_err()
        {
            return;
        }
        if is_last {
            return;
        }
    }
}

fn next_line(stdout: &mut impl BufRead, max_line_bytes: usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_line_bytes).unwrap_or(u64::MAX).saturating_add(1);
    stdout.take(limit).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() > max_line_bytes {
        let problem = format!("it printed a line longer than {max_line_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let line = String::from_utf8(bytes);
    line.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Keeps the end of standard error; drops `closed` at its end.
fn keep_stderr_tail(mut stderr: ChildStderr, tail: &Mutex<Vec<u8>>, closed: Sender<Infallible>) {
    let mut buffer = [0; 1024];
    while let Ok(size @ 1..) = stderr.read(&mut buffer) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(buffer.get(..size).unwrap_or_default());
        let surplus = tail.len().saturating_sub(MAX_STDERR_TAIL_BYTES);
        tail.drain(..surplus);
    }
    drop(closed);
}

impl RealInteractiveProcess {
    fn pipe_error(&self, source: io::Error) -> SystemError {
        SystemError::Communication { program: self.program.clone(), source }
    }
}

impl InteractiveProcess for RealInteractiveProcess {
    fn send_line(&mut self, line: &str) -> SystemResult<()> {
        let broken_pipe = |_| self.pipe_error(io::ErrorKind::BrokenPipe.into());
        self.input.send(format!("{line}\n")).map_err(broken_pipe)
    }

    fn receive_line(
        &mut self,
        timeout: Duration,
        cancel: &CancelFlag,
    ) -> SystemResult<Option<String>> {
        let started = Instant::now();
        loop {
            if cancel.is_cancelled() {
                return Err(SystemError::Cancelled { program: self.program.clone() });
            }
            let left = timeout.saturating_sub(started.elapsed());
            match self.output.recv_timeout(left.min(CANCEL_POLL_INTERVAL)) {
                Ok(line) => return line.map(Some).map_err(|error| self.pipe_error(error)),
                Err(RecvTimeoutError::Disconnected) => {
                    // Callers read standard error next, which is collected by a separate thread. The wait is bounded, because a descendant
                    // may keep standard error open.
                    let _ = self.stderr.closed.recv_timeout(left.min(OUTPUT_DRAIN_TIMEOUT));
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(SystemError::Timeout {
                        program: self.program.clone(),
                        after: timeout,
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn stderr_tail(&self) -> String {
        let tail = self.stderr.tail.lock();
        let tail = tail.unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}

impl Drop for RealInteractiveProcess {
    /// The leader is reaped last, so that its pid cannot be reused while the group is being killed.
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
