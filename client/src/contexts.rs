//! Contexts: named client configurations below the user's configuration directory, of which one is selected.
//!
//! ```text
//! muster/rpc.toml                  the configuration without a context, which is called `default`
//! muster/contexts/NAME.toml        a context: a configuration file, or a symbolic link to one
//! muster/contexts/NAME/rpc.toml    the same in a directory of its own, as `rpc org add user NAME --bundle DIR` writes it
//! muster/context                   the name of the selected context, if there is one
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use muster_base::nearest_name;
use muster_files::files::{
    FileAccessError, create_private_directory, file_error, read_text, replace_public,
};

/// Maximum size of the file with the selected name, in bytes.
const MAX_SELECTION_BYTES: u64 = 1024;
/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The name of the configuration without a context.
pub const DEFAULT_CONTEXT: &str = "default";

/// A name of a context: letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextName(String);

/// The contexts of one user.
#[derive(Debug, Clone)]
pub struct ContextStore {
    directory: PathBuf,
}

/// A context and its configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientContext {
    /// Its name.
    pub name: ContextName,
    /// The configuration file, with symbolic links resolved; a path that does not exist if the link is broken.
    pub file: PathBuf,
}

/// Why a context cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The name has other characters, or is too long.
    #[error(
        "{0:?} is not the name of a context: use letters, digits, `.`, `_` and `-`, and at most {MAX_NAME_BYTES} characters"
    )]
    Name(String),
    /// No context has this name.
    #[error("there is no context `{name}` in {}", directory.display())]
    Unknown {
        /// The name.
        name: String,
        /// The directory of contexts.
        directory: PathBuf,
        /// The most similar context.
        nearest: Option<String>,
    },
    /// The context's name is taken.
    #[error("there is a context `{name}` already: {}", path.display())]
    Exists {
        /// The name.
        name: String,
        /// Its file or directory.
        path: PathBuf,
    },
    /// The context is not a link to a configuration, so removing it would remove the configuration.
    #[error("{} is not a link, and removing it would remove credentials or settings; remove it yourself", .0.display())]
    NotALink(PathBuf),
    /// There is no directory for the user's configuration.
    #[error("no directory for contexts: neither XDG_CONFIG_HOME nor HOME is set")]
    NoDirectory,
    /// Both variables select a configuration.
    #[error("both RPC_CONFIG and RPC_CONTEXT are set, and each selects a configuration")]
    TwoVariables,
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileAccessError),
}

impl ContextName {
    /// Checks the name.
    pub fn parse(text: &str) -> Result<Self, ContextError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_valid = !text.is_empty()
            && text.len() <= MAX_NAME_BYTES
            && !text.starts_with(['.', '-'])
            && text.chars().all(is_allowed);
        is_valid.then(|| Self(text.to_owned())).ok_or_else(|| ContextError::Name(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it means the configuration without a context.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT_CONTEXT
    }
}

impl std::fmt::Display for ContextName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ContextStore {
    /// The store below this configuration directory of the user. Creates no files.
    pub fn new(config_home: Option<&Path>) -> Result<Self, ContextError> {
        let home = config_home.ok_or(ContextError::NoDirectory)?;
        Ok(Self { directory: home.join("muster") })
    }

    /// The directory of the contexts.
    pub fn contexts_directory(&self) -> PathBuf {
        self.directory.join("contexts")
    }

    /// All contexts, sorted by name. Entries that are no contexts are left out.
    pub fn list(&self) -> Result<Vec<ClientContext>, ContextError> {
        let directory = self.contexts_directory();
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(file_error("read", &directory))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(file_error("read", &directory))?.path();
            found.extend(read_entry(&path));
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.dedup_by(|one, other| one.name == other.name);
        Ok(found)
    }

    /// The context with this name.
    pub fn find(&self, name: &ContextName) -> Result<ClientContext, ContextError> {
        let contexts = self.list()?;
        contexts.iter().find(|context| context.name == *name).cloned().ok_or_else(|| {
            let known = contexts.iter().map(|context| context.name.as_str());
            ContextError::Unknown {
                name: name.to_string(),
                directory: self.contexts_directory(),
                nearest: nearest_name(name.as_str(), known),
            }
        })
    }

    /// The selected context. `None` means the configuration without a context.
    pub fn selected(&self) -> Result<Option<ContextName>, ContextError> {
        let text = match read_text(&self.selection_file(), MAX_SELECTION_BYTES) {
            Err(error) if error.is_missing() => return Ok(None),
            text => text?,
        };
        let name = ContextName::parse(text.trim())?;
        Ok((!name.is_default()).then_some(name))
    }

    /// Selects a context for later commands. Fails if it does not exist.
    pub fn select(&self, name: &ContextName) -> Result<(), ContextError> {
        if name.is_default() {
            return remove_if_present(&self.selection_file());
        }
        self.find(name)?;
        create_private_directory(&self.directory)?;
        Ok(replace_public(&self.selection_file(), format!("{name}\n").as_bytes())?)
    }

    /// Adds a context for a configuration file, or for a directory with an `rpc.toml`, as a link. An existing link to the same path is kept.
    pub fn add(&self, name: &ContextName, target: &Path) -> Result<(), ContextError> {
        let directory = self.contexts_directory();
        let suffix = if target.is_dir() { "" } else { ".toml" };
        let path = directory.join(format!("{name}{suffix}"));
        if fs::read_link(&path).is_ok_and(|known| known == target) {
            return Ok(());
        }
        let existing =
            self.entry_paths(name).into_iter().find(|path| path.symlink_metadata().is_ok());
        if let Some(path) = existing.filter(|_| !name.is_default()) {
            return Err(ContextError::Exists { name: name.to_string(), path });
        }
        if name.is_default() {
            return Err(ContextError::Exists {
                name: name.to_string(),
                path: self.directory.join("rpc.toml"),
            });
        }
        create_private_directory(&directory)?;
        Ok(symlink(target, &path).map_err(file_error("create", &path))?)
    }

    /// Removes a context that is a link. A removed context is no longer selected.
    pub fn remove(&self, name: &ContextName) -> Result<(), ContextError> {
        self.find(name)?;
        for path in self.entry_paths(name) {
            match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => remove_if_present(&path)?,
                Ok(_) => return Err(ContextError::NotALink(path)),
                Err(_) => {}
            }
        }
        if self.selected()?.as_ref() == Some(name) {
            remove_if_present(&self.selection_file())?;
        }
        Ok(())
    }

    fn selection_file(&self) -> PathBuf {
        self.directory.join("context")
    }

    fn entry_paths(&self, name: &ContextName) -> [PathBuf; 2] {
        let directory = self.contexts_directory();
        [directory.join(format!("{name}.toml")), directory.join(name.as_str())]
    }
}

/// The context of an entry in the directory of contexts.
fn read_entry(path: &Path) -> Option<ClientContext> {
    let file_name = path.file_name()?.to_str()?;
    let (name, file) = match file_name.strip_suffix(".toml") {
        Some(name) => (name, path.to_owned()),
        None => (file_name, path.join("rpc.toml")),
    };
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    if !is_link && !file.is_file() {
        return None;
    }
    let name = ContextName::parse(name).ok().filter(|name| !name.is_default())?;
    // Relative paths in a configuration are relative to the file itself, not to a link to it.
    let resolved = fs::canonicalize(&file).or_else(|_| fs::read_link(path));
    Some(ClientContext { name, file: resolved.unwrap_or(file) })
}

fn remove_if_present(path: &Path) -> Result<(), ContextError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => Ok(removed.map_err(file_error("remove", path))?),
    }
}

#[cfg(test)]
mod tests {
    use super::{ContextError, ContextName, ContextStore};

    fn name(text: &str) -> ContextName {
        ContextName::parse(text).unwrap()
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        for good in ["acme", "acme-prod", "a.b_c", "default"] {
            assert!(ContextName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "-x", ".x", "a b", "ä", &"x".repeat(65)] {
            assert!(matches!(ContextName::parse(bad), Err(ContextError::Name(_))), "{bad}");
        }
    }

    #[test]
    fn files_and_directories_are_contexts_and_one_can_be_selected() {
        let home = tempfile::tempdir().unwrap();
        let store = ContextStore::new(Some(home.path())).unwrap();
        assert_eq!(store.list().unwrap(), []);
        assert_eq!(store.selected().unwrap(), None);
        let directory = home.path().join("muster/contexts");
        std::fs::create_dir_all(directory.join("beta")).unwrap();
        std::fs::write(directory.join("beta/rpc.toml"), "").unwrap();
        std::fs::write(directory.join("alpha.toml"), "").unwrap();
        std::fs::create_dir(directory.join("empty")).unwrap();
        std::fs::write(directory.join("default.toml"), "").unwrap();
        let names: Vec<_> = store.list().unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, [name("alpha"), name("beta")]);
        store.select(&name("beta")).unwrap();
        assert_eq!(store.selected().unwrap(), Some(name("beta")));
        let unknown = store.select(&name("betta")).unwrap_err();
        assert!(
            matches!(&unknown, ContextError::Unknown { nearest: Some(near), .. } if near == "beta")
        );
        assert_eq!(store.selected().unwrap(), Some(name("beta")));
        store.select(&name("default")).unwrap();
        assert_eq!(store.selected().unwrap(), None);
        assert!(matches!(store.remove(&name("beta")), Err(ContextError::NotALink(_))));
    }

    #[test]
    fn links_are_resolved_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let file = elsewhere.path().canonicalize().unwrap().join("rpc.toml");
        std::fs::write(&file, "").unwrap();
        let store = ContextStore::new(Some(home.path())).unwrap();
        let directory = file.parent().unwrap();
        store.add(&name("acme"), directory).unwrap();
        store.add(&name("acme"), directory).unwrap();
        store.add(&name("other"), &file).unwrap();
        for one in ["acme", "other"] {
            assert_eq!(store.find(&name(one)).unwrap().file, file);
        }
        let other = store.add(&name("acme"), home.path()).unwrap_err();
        assert!(matches!(other, ContextError::Exists { .. }), "{other}");
        assert!(store.add(&name("default"), &file).is_err());
        store.select(&name("acme")).unwrap();
        store.remove(&name("acme")).unwrap();
        assert_eq!(store.selected().unwrap(), None);
        assert!(file.exists());
        // A broken link is listed, so that it can be removed.
        std::fs::remove_file(&file).unwrap();
        assert_eq!(store.list().unwrap().len(), 1);
        store.remove(&name("other")).unwrap();
        assert_eq!(store.list().unwrap(), []);
    }
}
