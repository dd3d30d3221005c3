//! A value that is read from files, and read again when one of them changes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::FileStamp;

/// What was read from files, with the versions of the files.
#[derive(Debug)]
pub struct ReloadedFiles<T> {
    paths: Vec<PathBuf>,
    known: Mutex<(Vec<Option<FileStamp>>, T)>,
}

impl<T: Clone> ReloadedFiles<T> {
    /// Reads the value of these files.
    pub fn load<E>(paths: &[&Path], read: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        let stamps = read_stamps(&paths);
        let known = Mutex::new((stamps, read()?));
        Ok(Self { paths, known })
    }

    /// The value. After a change it is read again, and `report` gets the result; while it cannot be read, for example because only one of the files was
    /// replaced yet, the value is the last one that could.
    pub fn current<E>(
        &self,
        read: impl FnOnce() -> Result<T, E>,
        report: impl FnOnce(Result<(), E>),
    ) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = read_stamps(&self.paths);
        if known.0 != stamps {
            known.0 = stamps;
            report(read().map(|value| known.1 = value));
        }
        known.1.clone()
    }
}

fn read_stamps(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    paths.iter().map(|path| FileStamp::read(path)).collect()
}
