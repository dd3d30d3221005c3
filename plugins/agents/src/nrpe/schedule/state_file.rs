//! The file of states, `checks/states.json` in the daemon's state directory: replaced atomically, and begun again if it is damaged.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use muster_files::replace_file;
use serde::{Deserialize, Serialize};

use super::check_book::CheckBook;

const FORMAT_VERSION: u32 = 1;
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
const FILE_NAME: &str = "states.json";
/// Added to the name of a damaged file, which is kept for inspection.
const DAMAGED_SUFFIX: &str = "json.damaged";

#[derive(Serialize, Deserialize)]
struct StateFileContent<B> {
    version: u32,
    #[serde(flatten)]
    book: B,
}

#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    directory: PathBuf,
}

impl StateFile {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Reads the states; without a file there are none. A file that cannot be used is set aside, and the problem is returned. Blocks.
    pub(crate) fn load(&self) -> (CheckBook, Option<String>) {
        let path = self.path();
        let problem = match read_limited(&path) {
            Ok(bytes) => match serde_json::from_slice::<StateFileContent<CheckBook>>(&bytes) {
                Ok(content) if content.version == FORMAT_VERSION => return (content.book, None),
                Ok(content) => format!("its version is {}, not {FORMAT_VERSION}", content.version),
                Err(error) => format!("it is damaged: {error}"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (CheckBook::default(), None);
            }
            Err(error) => format!("it cannot be read: {error}"),
        };
        let kept = path.with_extension(DAMAGED_SUFFIX);
        let fate = match fs::rename(&path, &kept) {
            Ok(()) => format!("it was renamed to {}", kept.display()),
            Err(error) => format!("it cannot be renamed: {error}"),
        };
        let path = path.display();
        let problem = format!(
            "{path}: {problem}; {fate}; all checks begin without states, acknowledgements and maintenance"
        );
        (CheckBook::default(), Some(problem))
    }

    pub(crate) fn encode(book: &CheckBook) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&StateFileContent { version: FORMAT_VERSION, book })
    }

    /// Blocks.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        replace_file(&self.path(), bytes, 0o600)
    }
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let size = path.metadata()?.len();
    if size > MAX_FILE_BYTES {
        let problem = format!("it has {size} bytes; at most {MAX_FILE_BYTES} are read");
        return Err(io::Error::other(problem));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::StateFile;
    use crate::nrpe::schedule::check_book::CheckBook;

    #[test]
    fn states_are_written_and_read_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let file = StateFile::new(scratch.path().join("checks"));
        assert_eq!(file.load(), (CheckBook::default(), None));
        let mut book = CheckBook::default();
        book.records.entry("load".to_owned()).or_default().next_check = Some(5);
        file.write(&StateFile::encode(&book).unwrap()).unwrap();
        assert_eq!(file.load(), (book, None));
        assert_eq!(file.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn damaged_file_is_kept_and_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let file = StateFile::new(scratch.path().to_owned());
        for (bytes, expected) in [
            (&b"{\"version\": 1, \"records\""[..], "it is damaged: "),
            (b"", "it is damaged: "),
            (b"\xff", "it is damaged: "),
            (b"{\"version\": 2}", "its version is 2, not 1"),
        ] {
            std::fs::write(file.path(), bytes).unwrap();
            let (book, problem) = file.load();
            assert_eq!(book, CheckBook::default());
            let problem = problem.unwrap();
            assert!(problem.contains(expected) && problem.contains("renamed to"), "{problem}");
            assert_eq!(std::fs::read(scratch.path().join("states.json.damaged")).unwrap(), bytes);
            assert_eq!(file.load(), (CheckBook::default(), None));
        }
    }
}
