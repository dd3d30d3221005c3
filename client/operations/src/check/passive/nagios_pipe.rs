//! The pipe from which Nagios reads external commands.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use tokio::time::{Instant, sleep};

use super::result::PassiveResult;

/// How long a full pipe is awaited.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between attempts to write.
const WRITE_POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    pub async fn write_result(&mut self, result: &PassiveResult) -> Result<(), NagiosPipeError> {
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

    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;

    use super::super::result::{MAX_LINE_BYTES, PassiveResult};
    use super::super::testing::sample_result;
    use super::{NagiosPipe, NagiosPipeError};

    fn result(output: &str) -> PassiveResult {
        sample_result(output, "", "")
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
        pipe.write_result(&result(&long)).await.unwrap();
        pipe.write_result(&result("fine")).await.unwrap();
        let mut bytes = vec![0; 10_000];
        let count = reader.read(&mut bytes).unwrap();
        let text = String::from_utf8(bytes[..count].to_vec()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len()), (2, MAX_LINE_BYTES - 1));
        assert!(lines[1].ends_with(";2;fine"));
        drop(reader);
        let error = pipe.write_result(&result("fine")).await.unwrap_err();
        assert!(matches!(error, NagiosPipeError::NoReader(_)), "{error}");
    }
}
