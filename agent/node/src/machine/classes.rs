//! The classes that configuration management assigned to this node: one per line, the format of Puppet's `classes.txt`.
//!
//! If the file cannot be read, the last good classes stay. The caller supplies the path.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::ground::files;

pub const MAX_LINES: usize = 10_000;
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Why the classes were not updated.
#[derive(Debug, thiserror::Error)]
pub enum ClassesError {
    #[error("cannot read classes from {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file exceeds the limits, so it is probably not a list of classes.
    #[error("{} exceeds {MAX_LINES} lines or {MAX_FILE_BYTES} bytes; check whether it is a list of classes", path.display())]
    TooLarge { path: PathBuf },
    /// The file existed before and is now empty or missing; a run is probably writing it.
    #[error("{} is empty or missing; the last valid classes are kept", path.display())]
    Vanished { path: PathBuf },
}

/// The node's current classes: lower-case, sorted, each once.
#[derive(Debug)]
pub struct ClassStore {
    path: PathBuf,
    current: RwLock<Arc<[String]>>,
    /// Whether the file was read once, or found missing; the classes are unknown until then.
    known: AtomicBool,
}

impl ClassStore {
    /// Unknown until [`ClassStore::reload`].
    pub fn new(path: PathBuf) -> Self {
        Self { known: AtomicBool::new(false), ..Self::with_classes(path, Arc::from([])) }
    }

    /// Starts with these classes, which must be lower-case, sorted and unique.
    pub fn with_classes(path: PathBuf, classes: Arc<[String]>) -> Self {
        Self { path, current: RwLock::new(classes), known: AtomicBool::new(true) }
    }

    pub fn current(&self) -> Arc<[String]> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the classes were read once. A file that was invalid since before the daemon's start leaves them unknown.
    pub fn are_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Reads the file again. A file that never existed means no classes.
    pub fn reload(&self) -> Result<(), ClassesError> {
        let classes = parse_classes(&read_classes(&self.path)?)
            .ok_or_else(|| ClassesError::TooLarge { path: self.path.clone() })?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if classes.is_empty() && !current.is_empty() {
            return Err(ClassesError::Vanished { path: self.path.clone() });
        }
        *current = classes.into();
        self.known.store(true, Ordering::Release);
        Ok(())
    }
}

/// The text of the file; empty if there is no file.
fn read_classes(path: &Path) -> Result<String, ClassesError> {
    match files::allow_missing(files::read_bytes(path, MAX_FILE_BYTES)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(ClassesError::TooLarge { path: path.to_owned() })
        }
        Err(source) => Err(ClassesError::Read { path: path.to_owned(), source }),
    }
}

/// The classes of a text; `None` if it has too many lines.
fn parse_classes(text: &str) -> Option<Vec<String>> {
    if text.lines().count() > MAX_LINES {
        return None;
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut classes: Vec<String> = lines.map(str::to_lowercase).collect();
    classes.sort();
    classes.dedup();
    Some(classes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{ClassStore, ClassesError, MAX_LINES};

    #[test]
    fn classes_are_unknown_until_the_file_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("classes.txt");
        fs::write(&path, "c\n".repeat(MAX_LINES + 1)).unwrap();
        let classes = ClassStore::new(path.clone());
        assert!(classes.reload().is_err() && !classes.are_known());
        fs::write(&path, "apache\n").unwrap();
        classes.reload().unwrap();
        assert!(classes.are_known());
        fs::write(&path, "c\n".repeat(MAX_LINES + 1)).unwrap();
        assert!(classes.reload().is_err() && classes.are_known());
        // A node that never had the file has no classes; this is known.
        let none = ClassStore::new(scratch.path().join("none"));
        none.reload().unwrap();
        assert!(none.are_known());
    }

    #[test]
    fn classes_are_normalised_sorted_and_kept_when_the_file_is_damaged() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("classes.txt");
        let classes = ClassStore::new(path.clone());
        classes.reload().unwrap();
        assert!(classes.current().is_empty());

        fs::write(&path, "settings\n  MySQL::Master \n\napache\nsettings\n").unwrap();
        classes.reload().unwrap();
        let good = ["apache", "mysql::master", "settings"].map(str::to_owned);
        assert_eq!(*classes.current(), good);

        fs::write(&path, "").unwrap();
        assert!(matches!(classes.reload(), Err(ClassesError::Vanished { .. })));
        fs::write(&path, "c\n".repeat(MAX_LINES + 1)).unwrap();
        assert!(matches!(classes.reload(), Err(ClassesError::TooLarge { .. })));
        fs::remove_file(&path).unwrap();
        assert!(matches!(classes.reload(), Err(ClassesError::Vanished { .. })));
        assert_eq!(*classes.current(), good);

        fs::write(&path, "c\n".repeat(MAX_LINES)).unwrap();
        classes.reload().unwrap();
        assert_eq!(*classes.current(), ["c".to_owned()]);
    }

    #[test]
    fn refuses_a_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let classes = ClassStore::new(scratch.path().to_owned());
        assert!(matches!(classes.reload(), Err(ClassesError::Read { .. })));
    }
}
