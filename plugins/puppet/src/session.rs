//! One program of Puppet's, from its start to its end: a process group of its own that outlives the daemon, its log read as it
//! grows, and what it forgets entered in the ledger.
//!
//! Blocks; the caller gives it a thread. Whoever wants it ended raises a [`Stop`].

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::system::{Command, ProcessId, Signal, Spool, System, SystemError};

use crate::outcome::Reason;
use crate::verdict::LOG;
use crate::wrapper::books::Books;
use crate::wrapper::trace::{Line, Lines, Step};

/// The log of the program, in its directory.
pub(crate) const TRACE: &str = "trace.jsonl";
/// How often the program is looked at. There is no call that waits for both its end and its words.
const LOOK: Duration = Duration::from_millis(100);
/// How long a program that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// Most of the log that is read at once.
const PIECE: u64 = 4 * 1024 * 1024;
/// Bytes of each output stream that are kept.
const OUTPUT: u64 = 1024 * 1024;
/// What Puppet says when another run goes on.
const IN_PROGRESS: &str = "already in progress";
/// Where programs are looked for by Puppet's providers.
const PATH: &str =
    "/opt/puppetlabs/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a program is to be ended; the first reason counts.
#[derive(Debug, Default)]
pub(crate) struct Stop(Mutex<Option<Reason>>);

impl Stop {
    pub(crate) fn raise(&self, reason: Reason) {
        let mut raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert(reason);
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a program ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) exit: Option<i32>,
    pub(crate) stopped: Option<Reason>,
    pub(crate) log: Vec<String>,
    pub(crate) was_locked: bool,
}

/// Starts the program; its output and its log go into the directory, which is there.
pub(crate) fn start(
    system: &dyn System,
    argv: Vec<String>,
    directory: &Path,
    trace: Option<String>,
) -> Result<ProcessId, SystemError> {
    let mut command = Command::new(argv);
    for (name, value) in [("PATH", PATH), ("LC_ALL", "C.UTF-8"), ("LANG", "C.UTF-8")] {
        command.env.insert(name.to_owned(), value.to_owned());
    }
    if let Some(trace) = trace {
        let name = muster_api::wire::trace::VARIABLE;
        command.env.insert(name.to_owned(), trace);
    }
    let spool = Spool {
        directory: directory.to_owned(),
        limit: OUTPUT,
    };
    system.start(&command, &spool)
}

/// What is watched.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) process: ProcessId,
    pub(crate) directory: PathBuf,
    pub(crate) books: Books,
    /// The refreshes that it is to make.
    pub(crate) targets: &'a [String],
    pub(crate) stop: &'a Stop,
    /// Between TERM and KILL.
    pub(crate) grace: Duration,
}

impl Watch<'_> {
    /// Watches until the program has ended. `applying` is called when it has a catalog.
    pub(crate) fn until_its_end(
        mut self,
        applying: &mut dyn FnMut(),
    ) -> Result<Ended, SystemError> {
        let mut ended = Ended::default();
        let mut log = Log::new(self.directory.join(TRACE));
        let mut ending = None;
        loop {
            // Asked first: what is written before the end is read after it.
            let is_over = self.is_over();
            while self.listen(&mut log, &mut ended, applying)? {}
            if is_over {
                break;
            }
            if let Some(reason) = self.stop.reason() {
                ended.stopped = Some(reason);
                if self.is_given_up(&mut ending)? {
                    break;
                }
            }
            std::thread::park_timeout(LOOK);
        }
        while self.listen(&mut log, &mut ended, applying)? {}
        self.books.end(self.targets, self.system)?;
        ended.exit = self.exit();
        Ok(ended)
    }

    fn is_over(&self) -> bool {
        self.exit().is_some() || !self.system.is_running(&self.process)
    }

    fn exit(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.directory.join(Spool::EXIT)).ok()?;
        text.trim().parse().ok()
    }

    /// Sends TERM, and KILL when it did not help; tells whether nothing more can be done.
    fn is_given_up(&self, ending: &mut Option<Instant>) -> Result<bool, SystemError> {
        let Some(since) = *ending else {
            *ending = Some(Instant::now());
            self.system.signal(&self.process, Signal::SIGTERM, true)?;
            return Ok(false);
        };
        if since.elapsed() >= self.grace {
            self.system.signal(&self.process, Signal::SIGKILL, true)?;
        }
        Ok(since.elapsed() >= self.grace + GONE)
    }

    /// Takes in what the log has more; tells whether there was any.
    fn listen(
        &mut self,
        log: &mut Log,
        ended: &mut Ended,
        applying: &mut dyn FnMut(),
    ) -> Result<bool, SystemError> {
        let Some(lines) = log.more() else {
            return Ok(false);
        };
        for line in &lines {
            if line.step() == Step::Applying {
                applying();
            }
            note(ended, line);
            self.books.hear(line, self.system)?;
        }
        Ok(true)
    }
}

fn note(ended: &mut Ended, line: &Line) {
    ended.was_locked |= line.message.contains(IN_PROGRESS);
    let is_loud = !matches!(line.level.as_str(), "debug" | "info" | "notice");
    if is_loud && ended.log.len() < LOG {
        let Line {
            level,
            message,
            source,
        } = line;
        ended.log.push(format!("{level}: {source}: {message}"));
    }
}

/// A log that grows.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    offset: u64,
    lines: Lines,
}

impl Log {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            lines: Lines::default(),
        }
    }

    /// The lines that came since; nothing when there was nothing, or there is no log yet.
    fn more(&mut self) -> Option<Vec<Line>> {
        let mut file = File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut piece = Vec::new();
        file.take(PIECE).read_to_end(&mut piece).ok()?;
        self.offset += u64::try_from(piece.len()).unwrap_or_default();
        (!piece.is_empty()).then(|| self.lines.add(&piece))
    }
}
