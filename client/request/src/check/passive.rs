//! Passive results for Nagios: lines of external commands, and the pipe that Nagios reads them from.
//!
//! Texts of nodes are not trusted: a line is one command, whatever they contain.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_base::is_harmful;
use muster_contract::nrpe::CheckState;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use tokio::time::{Instant, sleep};

/// Most bytes that a pipe takes at once, without bytes of others in between: `PIPE_BUF` of Linux.
const MAX_LINE_BYTES: usize = 4096;
/// How long a full pipe is awaited.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between attempts to write.
const WRITE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result of a service check on a host.
#[derive(Debug, Clone, Copy)]
pub struct PassiveResult<'a> {
    /// When it was, in seconds since the epoch.
    pub time: u64,
    /// The host, as Nagios names it.
    pub host: &'a str,
    /// The service.
    pub service: &'a str,
    /// The state.
    pub state: CheckState,
    /// The first line of the output.
    pub output: &'a str,
    /// The performance data.
    pub perfdata: &'a str,
    /// The other lines of the output.
    pub long_output: &'a str,
}

impl PassiveResult<'_> {
    /// The line, with its end: at most as long as a pipe takes at once. The output is the last part of a command, so that `;` needs no escape there.
    pub fn to_line(&self) -> String {
        let Self { time, state, .. } = self;
        let (host, service) = (command_part(self.host), command_part(self.service));
        let mut line = format!(
            "[{time}] PROCESS_SERVICE_CHECK_RESULT;{host};{service};{};{}",
            state.exit_code(),
            output_text(self.output)
        );
        if !self.perfdata.is_empty() {
            line.push('|');
            line.push_str(&output_text(self.perfdata));
        }
        for more in self.long_output.lines() {
            line.push_str("\\n");
            line.push_str(&output_text(more));
        }
        let end = line.floor_char_boundary(MAX_LINE_BYTES - 1);
        line.truncate(end);
        line.push('\n');
        line
    }
}

/// A part before the last one: without separators.
fn command_part(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) || matches!(c, ';' | '|') { '_' } else { c }).collect()
}

/// A part of the output: on one line, without characters that a terminal interprets and without a second begin of performance data. Line breaks are those
/// of Nagios, `\n`.
fn output_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '|' => escaped.push('/'),
            '\t' => escaped.push(' '),
            c if is_harmful(c) => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Why a result was not written.
#[derive(Debug, thiserror::Error)]
pub enum NagiosPipeError {
    /// The pipe cannot be opened.
    #[error("cannot open the command pipe {}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file is no pipe.
    #[error("{} is not a named pipe; use the `command_file` of nagios.cfg", .0.display())]
    NotAPipe(PathBuf),
    /// Nagios does not run.
    #[error("no process reads the command pipe {}; start Nagios, and set check_external_commands=1 in nagios.cfg", .0.display())]
    NoReader(PathBuf),
    /// Nagios does not read.
    #[error("the command pipe {} is full: its reader has read nothing for {} s", path.display(), after.as_secs())]
    Full {
        /// The path.
        path: PathBuf,
        /// The wait time.
        after: Duration,
    },
    /// The pipe cannot be written to.
    #[error("cannot write to the command pipe {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
}

/// Nagios' command pipe. Each line is written at once, so that those of several processes never mix.
#[derive(Debug)]
pub struct NagiosPipe {
    file: File,
    path: PathBuf,
}

impl NagiosPipe {
    /// Opens the pipe. Never waits for a reader.
    pub fn open(path: &Path) -> Result<Self, NagiosPipeError> {
        let path = path.to_owned();
        // A regular file would be found too late: it must not be written to.
        match path.metadata() {
            Ok(found) if !found.file_type().is_fifo() => {
                return Err(NagiosPipeError::NotAPipe(path));
            }
            Ok(_) => {}
            Err(source) => return Err(NagiosPipeError::Open { path, source }),
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = OpenOptions::new().write(true).custom_flags(flags.bits()).open(&path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {
                return Err(NagiosPipeError::NoReader(path));
            }
            Err(source) => return Err(NagiosPipeError::Open { path, source }),
        };
        match file.metadata() {
            Ok(found) if found.file_type().is_fifo() => Ok(Self { file, path }),
            _ => Err(NagiosPipeError::NotAPipe(path)),
        }
    }

    /// Writes a result. Waits some seconds if the pipe is full.
    pub async fn write_result(
        &mut self,
        result: &PassiveResult<'_>,
    ) -> Result<(), NagiosPipeError> {
        let (line, path) = (result.to_line(), self.path.clone());
        let deadline = Instant::now() + WRITE_TIMEOUT;
        loop {
            // At most `PIPE_BUF` bytes: all or nothing.
            match self.file.write(line.as_bytes()) {
                Ok(count) if count == line.len() => return Ok(()),
                Ok(_) => {
                    let source = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(NagiosPipeError::Write { path, source });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(NagiosPipeError::Full { path, after: WRITE_TIMEOUT });
                    }
                    sleep(WRITE_POLL_INTERVAL).await;
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(NagiosPipeError::NoReader(path));
                }
                Err(source) => return Err(NagiosPipeError::Write { path, source }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use muster_contract::nrpe::CheckState;
    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;
    use proptest::prelude::*;

    use super::{MAX_LINE_BYTES, NagiosPipe, NagiosPipeError, PassiveResult};

    fn result<'a>(output: &'a str, perfdata: &'a str, long_output: &'a str) -> PassiveResult<'a> {
        let (time, host, service) = (1_780_000_000, "web1.example.net", "load");
        PassiveResult {
            time,
            host,
            service,
            state: CheckState::Critical,
            output,
            perfdata,
            long_output,
        }
    }

    #[test]
    fn line_is_one_command_with_its_texts_escaped() {
        for (output, perfdata, long, expected) in [
            ("fine", "", "", "fine"),
            ("load; high", "load1=1;15;30;0; x=2", "", "load; high|load1=1;15;30;0; x=2"),
            ("a|b", "x=1", "two\nthree", "a/b|x=1\\ntwo\\nthree"),
            (
                "x\n[1] PROCESS_HOST_CHECK_RESULT;web2;0;fine",
                "",
                "",
                "x\\n[1] PROCESS_HOST_CHECK_RESULT;web2;0;fine",
            ),
            ("\u{1b}[2J\r\u{202e}\t'\"$(id)", "", "", "?[2J?? '\"$(id)"),
        ] {
            let line = result(output, perfdata, long).to_line();
            let head = "[1780000000] PROCESS_SERVICE_CHECK_RESULT;web1.example.net;load;2;";
            assert_eq!(line, format!("{head}{expected}\n"));
        }
        let hostile = PassiveResult { host: "a;b\n", service: "x;0;y", ..result("", "", "") };
        assert!(hostile.to_line().contains(";a_b_;x_0_y;2;\n"));
    }

    #[tokio::test]
    async fn pipe_needs_a_reader_and_lines_arrive_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("nagios.cmd");
        assert!(matches!(NagiosPipe::open(&path), Err(NagiosPipeError::Open { .. })));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(NagiosPipe::open(&path), Err(NagiosPipeError::NotAPipe(_))));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(matches!(NagiosPipe::open(&path), Err(NagiosPipeError::NoReader(_))));
        let mut reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path)
            .unwrap();
        let mut pipe = NagiosPipe::open(&path).unwrap();
        let long = "x".repeat(5000);
        pipe.write_result(&result(&long, "", "")).await.unwrap();
        pipe.write_result(&result("fine", "", "")).await.unwrap();
        let mut bytes = vec![0; 10_000];
        let count = reader.read(&mut bytes).unwrap();
        let text = String::from_utf8(bytes[..count].to_vec()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len()), (2, MAX_LINE_BYTES - 1));
        assert!(lines[1].ends_with(";2;fine"));
        drop(reader);
        let error = pipe.write_result(&result("fine", "", "")).await.unwrap_err();
        assert!(matches!(error, NagiosPipeError::NoReader(_)), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_of_one_command(host in ".{0,20}", output in "(.|\n){0,60}", perfdata in "(.|\n){0,40}", long in "(.|\n){0,40}", repeat in 1_usize..200) {
            let output = output.repeat(repeat);
            let line = PassiveResult { host: &host, ..result(&output, &perfdata, &long) }.to_line();
            prop_assert!(line.len() <= MAX_LINE_BYTES);
            prop_assert!(!line[..line.len() - 1].chars().any(muster_base::is_harmful), "{:?}", line);
            prop_assert!(line.ends_with('\n') && line.matches('|').count() <= 1);
            let parts: Vec<&str> = line.splitn(5, ';').collect();
            prop_assert_eq!(parts[0], "[1780000000] PROCESS_SERVICE_CHECK_RESULT");
            prop_assert_eq!(&parts[2..4], &["load", "2"][..]);
        }
    }
}
