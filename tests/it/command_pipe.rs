//! A named pipe as Nagios has it, with its reader.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// A named pipe and its reader.
pub(crate) struct CommandPipe {
    path: PathBuf,
    reader: Option<File>,
    text: String,
}

impl CommandPipe {
    pub(crate) fn create(path: PathBuf) -> Self {
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let reader = Some(options.open(&path).unwrap());
        Self { path, reader, text: String::new() }
    }

    /// Nagios ends.
    pub(crate) fn close(&mut self) {
        self.reader = None;
    }

    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// All lines that have arrived.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let mut bytes = vec![0; 65_536];
        while let Some(count) = self.reader.as_mut().and_then(|reader| reader.read(&mut bytes).ok())
        {
            self.text += std::str::from_utf8(bytes.get(..count).unwrap()).unwrap();
        }
        self.text.lines().map(str::to_owned).collect()
    }
}
