//! The number of lost records, in a small file that needs no space to be changed: after a full disk and a restart, the log still says how many are missing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Digits of the number, with leading zeros; then a line end.
const DIGITS: usize = 20;
/// Shortest time between two writes of a number that only grows.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The stored number.
#[derive(Debug)]
pub(super) struct LossFile {
    file: File,
    stored: u64,
    stored_at: Option<Instant>,
}

impl LossFile {
    /// Opens the file, or creates it and reserves its space.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).mode(0o600).open(path)?;
        let mut text = [0; DIGITS];
        let length = file.read_at(&mut text, 0)?;
        let stored = std::str::from_utf8(text.get(..length).unwrap_or_default());
        // A file that a crash left empty has no number.
        let stored = stored.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let mut opened = Self { file, stored, stored_at: None };
        opened.write(stored)?;
        Ok(opened)
    }

    /// The number when it was written last.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// Stores the number, if it has changed. A first loss and the end of a loss are stored at once.
    pub(super) fn store(&mut self, count: u64) -> io::Result<()> {
        let is_growing = self.stored > 0 && count > self.stored;
        let is_early = self.stored_at.is_some_and(|at| at.elapsed() < WRITE_INTERVAL);
        if count == self.stored || (is_growing && is_early) {
            return Ok(());
        }
        self.write(count)
    }

    fn write(&mut self, count: u64) -> io::Result<()> {
        self.file.write_all_at(format!("{count:0DIGITS$}\n").as_bytes(), 0)?;
        self.file.sync_data()?;
        (self.stored, self.stored_at) = (count, Some(Instant::now()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LossFile;

    #[test]
    fn number_survives_and_the_file_keeps_its_size() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("audit.lost");
        let mut file = LossFile::open(&path).unwrap();
        let size = || path.metadata().unwrap().len();
        assert_eq!((file.stored(), size()), (0, 21));
        file.store(4).unwrap();
        assert_eq!((LossFile::open(&path).unwrap().stored(), size()), (4, 21));
        // A number that grows is stored at most once a second.
        file.store(5).unwrap();
        assert_eq!(LossFile::open(&path).unwrap().stored(), 4);
        file.store(0).unwrap();
        assert_eq!(LossFile::open(&path).unwrap().stored(), 0);
        for (text, expected) in [("", 0), ("x", 0), ("7\n", 7)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(LossFile::open(&path).unwrap().stored(), expected, "{text}");
        }
    }
}
