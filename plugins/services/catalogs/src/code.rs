//! The code of environments: which commit is the newest, and a checkout of it.
//!
//! A repository is mirrored below the service's state; each commit has a checkout of its own, which is never changed. A plain directory is compiled where it
//! is; its code is named by the digest of its files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::system::System;
use muster_api::system::command::Command;

use crate::inputs::{CodeDirectory, CodeError};
use crate::options::{CodeSource, Environment};

/// Time for a step of git, or of the program that completes a checkout.
const STEP_TIMEOUT: Duration = Duration::from_mins(10);
/// Checkouts of an environment that are kept besides the newest.
const KEPT_CHECKOUTS: usize = 4;
/// Repositories of other users are read, and their hooks are never run.
const GIT_OPTIONS: [&str; 4] = ["-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null"];

/// The code of an environment at one commit.
#[derive(Debug)]
pub struct CodeVersion {
    pub environment: String,
    /// The commit, or the digest of the directory.
    pub code: String,
    /// The directory that has the environment, by its name.
    pub environments: PathBuf,
    pub directory: CodeDirectory,
    /// Whether the files are not a checkout of this service, and may change.
    is_mutable: bool,
}

impl CodeVersion {
    /// Whether the files are still those of this version. Blocks.
    pub fn is_unchanged(&self) -> Result<bool, CodeError> {
        Ok(!self.is_mutable || self.directory.digest_all()?.to_string() == self.code)
    }
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum CodeSourceError {
    #[error("cannot run {program}")]
    Run {
        program: String,
        #[source]
        source: muster_api::system::SystemError,
    },
    #[error("{command} failed: {output}")]
    Failed { command: String, output: String },
    #[error("{0} is not a commit; it has 40 digits, 0-9 and a-f")]
    Commit(String),
    #[error("environment {0} is a directory: there is no other code than what is in it")]
    NoCommits(String),
    #[error(
        "{} has other files than the announced code: they were changed just now, or another compiler has others",
        .0.display()
    )]
    OtherFiles(PathBuf),
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error("cannot prepare {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Mirrors and checkouts below the state directory of this host.
#[derive(Debug, Clone)]
pub struct CodeStore {
    system: Arc<dyn System>,
    state: PathBuf,
    /// Held while a mirror is changed: git refuses a second fetch of the same one.
    mirrors: Arc<Mutex<()>>,
    /// Directories with code, whose digests are remembered.
    directories: Arc<Mutex<HashMap<PathBuf, Arc<CodeDirectory>>>>,
}

impl CodeStore {
    pub fn new(system: Arc<dyn System>, state: PathBuf) -> Self {
        Self { system, state, mirrors: Arc::default(), directories: Arc::default() }
    }

    /// The newest commit of the environment's branch, after a fetch; the digest of a directory. Blocks.
    pub fn find_newest(&self, environment: &Environment) -> Result<String, CodeSourceError> {
        match &environment.source {
            CodeSource::Directory(path) => Ok(self.open_directory(path)?.digest_all()?.to_string()),
            CodeSource::Repository { url, branch, .. } => {
                let mirror = self.fetch(environment, url)?;
                let reference = format!("refs/heads/{branch}^{{commit}}");
                let output = self.git(&mirror, &["rev-parse", "--verify", &reference])?;
                Ok(output.trim().to_owned())
            }
        }
    }

    /// A directory with code. Files that have not changed since the last call are not read again.
    fn open_directory(&self, path: &Path) -> Result<Arc<CodeDirectory>, CodeError> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = directories.get(path) {
            return Ok(Arc::clone(known));
        }
        let opened = Arc::new(CodeDirectory::open(path)?);
        directories.insert(path.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }

    /// The full name of a commit, which the repository must have.
    pub fn resolve_commit(
        &self,
        environment: &Environment,
        commit: &str,
    ) -> Result<String, CodeSourceError> {
        let CodeSource::Repository { url, .. } = &environment.source else {
            return Err(CodeSourceError::NoCommits(environment.name.clone()));
        };
        let mirror = self.fetch(environment, url)?;
        let reference = format!("{commit}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--end-of-options", &reference];
        Ok(self.git(&mirror, &arguments)?.trim().to_owned())
    }

    /// The code of the environment under this name. Blocks: a new commit is checked out.
    pub fn open(
        &self,
        environment: &Environment,
        code: &str,
    ) -> Result<CodeVersion, CodeSourceError> {
        let (environments, is_mutable) = match &environment.source {
            CodeSource::Directory(path) => (path.parent().unwrap_or(path).to_owned(), true),
            CodeSource::Repository { url, prepare, .. } => {
                (self.check_out(environment, url, prepare, code)?, false)
            }
        };
        let directory = CodeDirectory::open_version(&environments.join(&environment.name))?;
        let (environment, code) = (environment.name.clone(), code.to_owned());
        let version = CodeVersion { environment, code, environments, directory, is_mutable };
        if version.is_unchanged()? {
            Ok(version)
        } else {
            Err(CodeSourceError::OtherFiles(version.directory.root().to_owned()))
        }
    }

    fn check_out(
        &self,
        environment: &Environment,
        url: &str,
        prepare: &[String],
        commit: &str,
    ) -> Result<PathBuf, CodeSourceError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if commit.len() != 40 || !commit.bytes().all(is_digit) {
            return Err(CodeSourceError::Commit(commit.chars().take(64).collect()));
        }
        let of_environment = self.state.join("code").join(&environment.name);
        let place = of_environment.join(commit);
        if place.exists() {
            return Ok(place);
        }
        let mirror = self.mirror_path(environment);
        if self.git(&mirror, &["cat-file", "-e", commit]).is_err() {
            self.fetch(environment, url)?;
        }
        let unfinished = of_environment.join(format!("{commit}.new"));
        let failed = |source| CodeSourceError::File { path: unfinished.clone(), source };
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(failed)?;
        }
        fs::create_dir_all(&unfinished).map_err(failed)?;
        let tree = unfinished.join(&environment.name);
        let [from, to] = [&mirror, &tree].map(|path| path.display().to_string());
        self.run(&["git", "clone", "--quiet", "--shared", "--no-checkout", &from, &to], None)?;
        self.git(&tree, &["checkout", "--quiet", "--detach", commit])?;
        if !prepare.is_empty() {
            let command: Vec<&str> = prepare.iter().map(String::as_str).collect();
            self.run(&command, Some(&tree))?;
        }
        fs::rename(&unfinished, &place).map_err(failed)?;
        remove_old(&of_environment, &place);
        Ok(place)
    }

    /// Makes or updates the mirror of a repository.
    fn fetch(&self, environment: &Environment, url: &str) -> Result<PathBuf, CodeSourceError> {
        let _changing = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        let mirror = self.mirror_path(environment);
        let path = mirror.display().to_string();
        if mirror.join("HEAD").exists() {
            self.git(&mirror, &["remote", "set-url", "origin", url])?;
            self.git(&mirror, &["fetch", "--quiet", "--prune", "origin"])?;
        } else {
            self.run(&["git", "clone", "--quiet", "--mirror", "--", url, &path], None)?;
        }
        Ok(mirror)
    }

    fn mirror_path(&self, environment: &Environment) -> PathBuf {
        self.state.join("repositories").join(format!("{}.git", environment.name))
    }

    fn git(&self, directory: &Path, arguments: &[&str]) -> Result<String, CodeSourceError> {
        let path = directory.display().to_string();
        let command = [&["git", "-C", &path][..], arguments].concat();
        self.run(&command, None)
    }

    /// Runs a program; returns what it printed.
    fn run(&self, command: &[&str], directory: Option<&Path>) -> Result<String, CodeSourceError> {
        let mut argv: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        if command.first() == Some(&"git") {
            argv.splice(1..1, GIT_OPTIONS.map(str::to_owned));
        }
        let home = self.state.display().to_string();
        let command = Command {
            env: [("HOME".to_owned(), home), ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned())]
                .into(),
            cwd: directory.map(Path::to_owned),
            umask: Some(0o022),
            timeout: Some(STEP_TIMEOUT),
            ..Command::configured(argv)
        };
        let output = self.system.run_command(&command).map_err(|source| CodeSourceError::Run {
            program: command.program_name().to_owned(),
            source,
        })?;
        if output.is_success() {
            return Ok(output.stdout_text());
        }
        let line = command.argv.join(" ");
        let output = output.combined_text().trim().chars().take(500).collect();
        Err(CodeSourceError::Failed { command: line, output })
    }
}

/// Removes checkouts that were made long ago. One that is still compiled from stays open for its compiler.
fn remove_old(of_environment: &Path, newest: &Path) {
    let entries = fs::read_dir(of_environment).into_iter().flatten().flatten();
    let made = |entry: fs::DirEntry| {
        let time = entry.metadata().and_then(|metadata| metadata.modified()).ok()?;
        (entry.path() != newest).then(|| (time, entry.path()))
    };
    let mut old: Vec<_> = entries.filter_map(made).collect();
    old.sort_unstable();
    let excess = old.len().saturating_sub(KEPT_CHECKOUTS);
    for (_, path) in old.drain(..excess) {
        if let Err(error) = fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old checkout");
        }
    }
}
