//! Commands that `PuppetDB` refused: a directory with a file for each, with the reason and the body. The oldest are removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use muster_base::format_rfc3339;
use muster_files::files::{FileAccessError, create_private_directory, file_error, replace_secret};
use serde::Serialize;
use serde_json::value::RawValue;

use super::command::PuppetdbCommand;

/// Bytes of all files, whatever their number.
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
/// The longest reason of a server that is kept.
const MAX_REASON_BYTES: usize = 2048;

/// The directory of refused commands.
#[derive(Debug)]
pub struct DeadLetters {
    directory: PathBuf,
    limit: usize,
    /// One file is written at a time, so that the bounds hold.
    writing: Mutex<u64>,
}

impl DeadLetters {
    /// Creates the directory; only its owner can read it, because facts may be confidential.
    pub fn open(directory: PathBuf, limit: usize) -> Result<Self, FileAccessError> {
        create_private_directory(&directory)?;
        Ok(Self { directory, limit, writing: Mutex::new(0) })
    }

    /// Stores a command that was refused with this status and text; `None` for one that was never sent. Returns the file.
    pub fn store(
        &self,
        command: &PuppetdbCommand,
        status: Option<u16>,
        reason: &str,
        now: u64,
    ) -> Result<PathBuf, FileAccessError> {
        let mut number = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        // Names are in the order of their files.
        let certname = command.certname.replace('/', "_");
        let name = format!("{now:015}-{:06}-{}-{certname}.json", *number, command.kind.as_str());
        let path = self.directory.join(name);
        replace_secret(&path, letter_text(command, status, reason, now).as_bytes())?;
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
            remove(&path)?;
            (count, bytes) = (count - 1, bytes - size);
        }
        Ok(())
    }
}

fn remove(path: &Path) -> Result<(), FileAccessError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// What a file has.
#[derive(Serialize)]
struct DeadLetter<'a> {
    command: &'static str,
    version: u32,
    certname: &'a str,
    producer_timestamp: String,
    refused_at: String,
    status: Option<u16>,
    reason: &'a str,
    payload: Option<Box<RawValue>>,
}

fn letter_text(command: &PuppetdbCommand, status: Option<u16>, reason: &str, now: u64) -> String {
    let letter = DeadLetter {
        command: command.kind.command(),
        version: command.kind.version(),
        certname: &command.certname,
        producer_timestamp: format_rfc3339(command.producer_timestamp),
        refused_at: format_rfc3339(now),
        status,
        reason: reason.get(..reason.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or_default(),
        payload: serde_json::from_slice(&command.body).ok(),
    };
    serde_json::to_string(&letter).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Map, Value};

    use super::super::command::{CommandKind, PuppetdbCommand};
    use super::DeadLetters;

    #[test]
    fn newest_letters_are_kept_with_body_and_reason() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("dead");
        let letters = DeadLetters::open(directory.clone(), 3).unwrap();
        let form = Map::from_iter([("certname".to_owned(), Value::from("web1"))]);
        for now in 1..=5 {
            let command = PuppetdbCommand::new(CommandKind::Facts, "web1", now, form.clone());
            letters.store(&command, Some(400), &"é".repeat(2000), now).unwrap();
        }
        let mut files: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 3);
        let text = fs::read_to_string(files.last().unwrap()).unwrap();
        let letter: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(letter["refused_at"], "1970-01-01T00:00:00.005Z");
        assert_eq!((&letter["status"], &letter["command"]), (&400.into(), &"replace_facts".into()));
        assert_eq!(letter["payload"], serde_json::json!({"certname": "web1"}));
        assert_eq!(letter["reason"].as_str().unwrap().len(), 2048);
        let mode = fs::metadata(files.last().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
