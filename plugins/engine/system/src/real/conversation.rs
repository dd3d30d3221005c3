//! Talks to a resident program over pipes: threads write and read, so that a program that does neither cannot hold us up.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::process::{ATTENTION, Group, Prepared, spawn};
use crate::command::Cancel;
use crate::conversation::Conversation;
use crate::process::LAST_WORDS;
use crate::{Command, SystemError};

/// How much of what a program complains of is kept, in bytes.
const COMPLAINTS: usize = 4096;

type Line = io::Result<String>;

/// A running program.
pub(super) struct Talk {
    program: String,
    child: Child,
    group: Group,
    mouth: Sender<String>,
    ear: Receiver<Line>,
    complaints: Complaints,
}

/// What it wrote on standard error.
struct Complaints {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Nothing comes of it: it closes when standard error does.
    closed: Receiver<Infallible>,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Starts it. Of what `asked` says, the limits of time and the cancellation do not apply; the limit of output is that of a line.
pub(super) fn start(prepared: &Prepared, asked: &Command) -> Result<Talk, SystemError> {
    let failed = |source| SystemError::Start {
        program: asked.program().to_owned(),
        source,
    };
    let mut child = spawn(prepared, true).map_err(failed)?;
    let group = Group::of(&child).map_err(failed)?;
    match listen(&mut child, asked.output_limit) {
        Ok((mouth, ear, complaints)) => Ok(Talk {
            program: asked.program().to_owned(),
            child,
            group,
            mouth,
            ear,
            complaints,
        }),
        Err(error) => {
            group.signal(Signal::SIGKILL);
            let _ = child.wait();
            Err(failed(error))
        }
    }
}

type Ends = (Sender<String>, Receiver<Line>, Complaints);

/// The three threads. Each ends with its pipe.
fn listen(child: &mut Child, longest: usize) -> io::Result<Ends> {
    let closed = || io::Error::other("a pipe is missing");
    let stdin = child.stdin.take().ok_or_else(closed)?;
    let stdout = child.stdout.take().ok_or_else(closed)?;
    let stderr = child.stderr.take().ok_or_else(closed)?;
    let (mouth, words) = channel();
    let (heard, ear) = sync_channel(4);
    let (open, closed) = channel();
    let kept = Arc::default();
    let complaints = Complaints {
        kept: Arc::clone(&kept),
        closed,
    };
    let thread = |name: &str| thread::Builder::new().name(name.to_owned());
    thread("talk-write").spawn(move || write(stdin, &words))?;
    thread("talk-read").spawn(move || read(stdout, longest, &heard))?;
    thread("talk-stderr").spawn(move || keep(stderr, &kept, open))?;
    Ok((mouth, ear, complaints))
}

/// A program that is gone is noticed by its output's end.
fn write(mut stdin: ChildStdin, words: &Receiver<String>) {
    for line in words {
        if stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.flush())
            .is_err()
        {
            return;
        }
    }
}

fn read(stdout: ChildStdout, longest: usize, heard: &SyncSender<Line>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = next_line(&mut stdout, longest);
        let is_last = !matches!(line, Ok(Some(_)));
        if let Some(line) = line.transpose()
            && heard.send(line).is_err()
        {
            return;
        }
        if is_last {
            return;
        }
    }
}

fn next_line(stdout: &mut impl BufRead, longest: usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(longest).unwrap_or(u64::MAX).saturating_add(1);
    stdout.take(limit).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() > longest {
        let problem = format!("it printed a line of more than {longest} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let line = String::from_utf8(bytes);
    line.map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Keeps the end of it; lets go of `open` when no more comes.
fn keep(mut stderr: ChildStderr, kept: &Mutex<Vec<u8>>, open: Sender<Infallible>) {
    let mut buffer = [0; 1024];
    while let Ok(size @ 1..) = stderr.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..size).unwrap_or_default());
        let surplus = kept.len().saturating_sub(COMPLAINTS);
        kept.drain(..surplus);
    }
    drop(open);
}

impl Talk {
    fn failed(&self, source: io::Error) -> SystemError {
        SystemError::Talk {
            program: self.program.clone(),
            source,
        }
    }
}

impl Conversation for Talk {
    fn say(&mut self, line: &str) -> Result<(), SystemError> {
        let gone = |_| self.failed(io::ErrorKind::BrokenPipe.into());
        self.mouth.send(format!("{line}\n")).map_err(gone)
    }

    fn hear(&mut self, within: Duration, cancel: &Cancel) -> Result<Option<String>, SystemError> {
        let began = Instant::now();
        loop {
            if cancel.is_cancelled() {
                return Err(SystemError::Cancelled {
                    program: self.program.clone(),
                });
            }
            let left = within.saturating_sub(began.elapsed());
            match self.ear.recv_timeout(left.min(ATTENTION)) {
                Ok(line) => return line.map(Some).map_err(|error| self.failed(error)),
                Err(RecvTimeoutError::Disconnected) => {
                    // Whoever hears of the end reads the complaints next. They come by a thread of their own, and a process
                    // that was left behind may keep standard error open.
                    let _ = self.complaints.closed.recv_timeout(left.min(LAST_WORDS));
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(SystemError::Timeout {
                        program: self.program.clone(),
                        after: within,
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn complaints(&self) -> String {
        let kept = self.complaints.kept.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

impl Drop for Talk {
    /// The leader is reaped last, so that its number cannot belong to somebody else while the group is being ended.
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
