//! What a target refused: a directory with a file for each, with the reason. The oldest are removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use muster_files::files::{FileAccessError, create_private_directory, file_error, replace_secret};
use serde::Serialize;

/// Bytes of all files, whatever their number.
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
/// The longest reason that is kept.
const MAX_REASON_BYTES: usize = 2048;

/// The directory of what was refused.
#[derive(Debug)]
pub struct DeadLetters {
    directory: PathBuf,
    limit: usize,
    /// One file is written at a time, so that the bounds hold.
    writing: Mutex<u64>,
}

impl DeadLetters {
    /// Creates the directory; only its owner can read it, because what was sent may be confidential.
    pub fn open(directory: PathBuf, limit: usize) -> Result<Self, FileAccessError> {
        create_private_directory(&directory)?;
        Ok(Self { directory, limit, writing: Mutex::new(0) })
    }

    /// Stores a letter at this time, in milliseconds since the epoch. The label is part of the file's name. Returns the file.
    pub fn store(
        &self,
        label: &str,
        letter: &impl Serialize,
        now: u64,
    ) -> Result<PathBuf, FileAccessError> {
        let mut number = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        // Names are in the order of their files.
        let name = format!("{now:015}-{:06}-{}.json", *number, label.replace('/', "_"));
        let path = self.directory.join(name);
        let text = serde_json::to_string(letter).unwrap_or_default() + "\n";
        replace_secret(&path, text.as_bytes())?;
        self.remove_oldest()?;
        Ok(path)
    }

    fn remove_oldest(&self) -> Result<(), FileAccessError> {
        let failed = file_error("read", &self.directory);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            files.push((entry.path(), entry.metadata().map_err(&failed)?.len()));
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let mut count = files.len();
        for (path, size) in files {
            if count <= self.limit && bytes <= MAX_TOTAL_BYTES {
                break;
            }
            remove_file(&path)?;
            (count, bytes) = (count - 1, bytes - size);
        }
        Ok(())
    }
}

/// The part of a reason that is kept.
pub fn cut_reason(reason: &str) -> &str {
    reason.get(..reason.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or_default()
}

/// Removes a file, if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), FileAccessError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Value, json};

    use super::{DeadLetters, cut_reason};

    #[test]
    fn newest_letters_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("dead");
        let letters = DeadLetters::open(directory.clone(), 3).unwrap();
        for now in 1..=5 {
            letters.store("facts-a/b", &json!({"now": now}), now).unwrap();
        }
        let mut files: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 3);
        let last = files.last().unwrap();
        assert!(last.ends_with("000000000000005-000005-facts-a_b.json"), "{last:?}");
        let letter: Value = serde_json::from_str(&fs::read_to_string(last).unwrap()).unwrap();
        assert_eq!(letter, json!({"now": 5}));
        let mode = fs::metadata(last).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(cut_reason(&"é".repeat(2000)).len(), 2048);
    }
}
