//! Digests of what a compile read of an environment's files.
//!
//! The paths come from a compiler, which untrusted code runs in: a path that leaves the environment counts as absent.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_files::{FileStamp, read_limited};
use muster_wire::catalog::plugins::PLUGIN_DIRECTORIES;
use serde_json::Value;

use super::values::digest_value;
use super::{CodeInput, FileRead, InputDigest};

/// Largest data file that is parsed. Of a larger file, the digest of the whole is used instead of that of a key.
const MAX_DATA_BYTES: u64 = 16 * 1024 * 1024;
/// Where code is, below the environment and below each module.
const CODE_DIRECTORIES: [&str; 5] = ["manifests", "functions", "types", "lib", "plans"];
/// Puppet's settings of an environment.
const SETTINGS_FILE: &str = "environment.conf";
/// Deepest directory that is followed.
const MAX_DEPTH: usize = 64;

/// A file of the environment that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {} of the environment", path.display())]
pub struct CodeError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The files of an environment at one commit, whose digests are remembered by inode, size and time.
#[derive(Debug)]
pub struct CodeDirectory {
    root: PathBuf,
    /// Whether each input is digested once, because changed files are another version.
    is_version: bool,
    inputs: Mutex<HashMap<CodeInput, InputDigest>>,
    known: Mutex<HashMap<PathBuf, (FileStamp, InputDigest)>>,
}

impl CodeDirectory {
    /// Files that may change.
    pub fn open(root: &Path) -> Result<Self, CodeError> {
        let root =
            root.canonicalize().map_err(|source| CodeError { path: root.to_owned(), source })?;
        let (inputs, known) = (Mutex::default(), Mutex::default());
        Ok(Self { root, is_version: false, inputs, known })
    }

    /// The files of one version of the code, which are not expected to change.
    pub fn open_version(root: &Path) -> Result<Self, CodeError> {
        Ok(Self { is_version: true, ..Self::open(root)? })
    }

    /// The canonical path of the environment.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of an existing file; `None` if it is outside the environment, or not there.
    pub fn find(&self, name: &Path) -> Result<Option<PathBuf>, CodeError> {
        self.resolve(&name.to_string_lossy())
    }

    /// The plugins of all modules, by their path in the module. Of two with the same path, that of the module that Puppet finds first counts.
    pub fn find_plugins(&self) -> Result<BTreeMap<String, PathBuf>, CodeError> {
        let mut plugins = BTreeMap::new();
        for above in self.module_directories()? {
            let Some(directory) = self.resolve(&above)? else { continue };
            for (module, _) in list(&directory)? {
                for kind in PLUGIN_DIRECTORIES {
                    let base = format!("{above}/{module}/{kind}");
                    let Some(path) = self.resolve(&base)? else { continue };
                    for (name, _) in walk(&path)? {
                        // A link may lead outside.
                        let file = self.resolve(&format!("{base}{name}"))?;
                        if let Some(file) = file.filter(|file| file.is_file()) {
                            plugins.entry(format!("{kind}{name}")).or_insert(file);
                        }
                    }
                }
            }
        }
        Ok(plugins)
    }

    /// The directories of modules below the environment, in the order in which Puppet searches them.
    fn module_directories(&self) -> Result<Vec<String>, CodeError> {
        let path = self.root.join(SETTINGS_FILE);
        let settings = match fs::read_to_string(&path) {
            Ok(settings) => settings,
            Err(error) if is_absence(&error) => String::new(),
            Err(source) => return Err(CodeError { path, source }),
        };
        let value = settings.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "modulepath").then(|| value.trim().to_owned())
        });
        let value = value.unwrap_or_else(|| "modules".to_owned());
        let root = format!("{}/", self.root.display());
        let directories = value.split(':').map(|path| path.strip_prefix(&root).unwrap_or(path));
        Ok(directories.filter(|path| !path.starts_with(['/', '$'])).map(str::to_owned).collect())
    }

    /// The digest of all files: another one if any was changed.
    pub fn digest_all(&self) -> Result<InputDigest, CodeError> {
        self.digest_tree(&self.root)
    }

    pub(super) fn digest_input(&self, input: &CodeInput) -> Result<InputDigest, CodeError> {
        if self.is_version
            && let Some(digest) = lock(&self.inputs).get(input)
        {
            return Ok(*digest);
        }
        let digest = match input {
            CodeInput::File(path, read) => self.digest(path, *read)?,
            CodeInput::Data(path, key) => self.digest_key(path, key)?,
            CodeInput::Names => self.digest_names()?,
            CodeInput::All => self.digest_all()?,
        };
        if self.is_version {
            lock(&self.inputs).insert(input.clone(), digest);
        }
        Ok(digest)
    }

    fn digest(&self, name: &str, read: FileRead) -> Result<InputDigest, CodeError> {
        let Some(path) = self.resolve(name)? else { return Ok(InputDigest::absent()) };
        match read {
            FileRead::Exists => Ok(InputDigest::of("exists", b"")),
            FileRead::File => self.digest_file(&path),
            FileRead::Names => Ok(digest_names(list(&path)?)),
            FileRead::TreeNames => Ok(digest_names(walk(&path)?)),
            FileRead::Tree => self.digest_tree(&path),
        }
    }

    /// The value of a key of a file in YAML or JSON; of another file, the whole.
    fn digest_key(&self, name: &str, key: &str) -> Result<InputDigest, CodeError> {
        let Some(path) = self.resolve(name)? else { return Ok(InputDigest::absent()) };
        let is_known = path.extension().is_some_and(|ending| {
            ["yaml", "yml", "json"].iter().any(|known| ending.eq_ignore_ascii_case(known))
        });
        let document = is_known.then(|| read_document(&path)).transpose()?.flatten();
        match document {
            Some(document) => Ok(document.get(key).map_or_else(InputDigest::absent, digest_value)),
            None => self.digest_file(&path),
        }
    }

    /// The names of all files of code.
    fn digest_names(&self) -> Result<InputDigest, CodeError> {
        let modules = self.resolve("modules")?.map(|path| list(&path)).transpose()?;
        let modules = modules.into_iter().flatten().map(|(name, _)| format!("modules/{name}"));
        let mut names = Vec::new();
        for above in modules.chain([String::new()]) {
            for directory in CODE_DIRECTORIES {
                let below = Path::new(&above).join(directory);
                let Some(path) = self.resolve(&below.to_string_lossy())? else { continue };
                let files = walk(&path)?;
                names.extend(
                    files.into_iter().map(|(name, _)| format!("{above}/{directory}/{name}")),
                );
            }
        }
        Ok(digest_value(&names.into()))
    }

    /// The path of an existing file or directory; `None` if it does not exist or is outside the environment.
    fn resolve(&self, name: &str) -> Result<Option<PathBuf>, CodeError> {
        let relative = Path::new(name);
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Ok(None);
        }
        let path = self.root.join(relative);
        match path.canonicalize() {
            Ok(path) => Ok(Some(path).filter(|path| path.starts_with(&self.root))),
            Err(error) if is_absence(&error) => Ok(None),
            Err(source) => Err(CodeError { path, source }),
        }
    }

    fn digest_file(&self, path: &Path) -> Result<InputDigest, CodeError> {
        let failed = |source| CodeError { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Ok(InputDigest::of("directory", b""));
        }
        let stamp = FileStamp::of_metadata(&metadata);
        let mut known = lock(&self.known);
        if let Some((_, digest)) = known.get(path).filter(|(known, _)| *known == stamp) {
            return Ok(*digest);
        }
        let digest = InputDigest::of("file", &fs::read(path).map_err(failed)?);
        known.insert(path.to_owned(), (stamp, digest));
        Ok(digest)
    }

    fn digest_tree(&self, path: &Path) -> Result<InputDigest, CodeError> {
        let mut text = Vec::new();
        for (name, file) in walk(path)? {
            let failed = |source| CodeError { path: file.clone(), source };
            let metadata = fs::symlink_metadata(&file).map_err(failed)?;
            let content = if metadata.is_symlink() {
                let target = fs::read_link(&file).map_err(failed)?;
                InputDigest::of("link", target.as_os_str().as_encoded_bytes())
            } else {
                self.digest_file(&file)?
            };
            text.push(format!("{name}\0{:o}\0{content}", metadata.mode()));
        }
        Ok(digest_value(&text.into()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All files and directories below a directory, sorted, as names and paths. Links are not followed. What git keeps beside a checkout differs between
/// hosts, and is left out.
fn walk(directory: &Path) -> Result<Vec<(String, PathBuf)>, CodeError> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), directory.to_owned(), 0)];
    while let Some((above, path, depth)) = open.pop() {
        for (name, is_directory) in list(&path)?.into_iter().filter(|(name, _)| name != ".git") {
            let (below, path) = (format!("{above}/{name}"), path.join(&name));
            if is_directory && depth < MAX_DEPTH {
                open.push((below.clone(), path.clone(), depth + 1));
            }
            found.push((below, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The names in a directory, sorted, and which are directories. A file has none.
fn list(path: &Path) -> Result<Vec<(String, bool)>, CodeError> {
    let failed = |source| CodeError { path: path.to_owned(), source };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_directory = entry.file_type().map_err(failed)?.is_dir();
        names.push((entry.file_name().to_string_lossy().into_owned(), is_directory));
    }
    names.sort();
    Ok(names)
}

fn digest_names<T>(entries: Vec<(String, T)>) -> InputDigest {
    digest_value(&entries.into_iter().map(|(name, _)| name).collect())
}

/// A document of data, if it can be parsed; Puppet reports the error of another one.
fn read_document(path: &Path) -> Result<Option<Value>, CodeError> {
    let failed = |source| CodeError { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let Ok(bytes) = read_limited(file, MAX_DATA_BYTES) else { return Ok(None) };
    let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
    Ok(serde_saphyr::from_str::<Value>(&text).ok().filter(Value::is_object))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
