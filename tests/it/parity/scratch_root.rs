//! A scratch root that a catalog is applied to, and a description of its state afterwards.
//!
//! The scratch roots of one scenario have paths of the same length. Their paths are replaced by the corpus' root before
//! texts are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use tempfile::TempDir;

use super::scenario::{CORPUS_ROOT, Scenario, ScenarioStep};

/// The accounts of a private `/etc`, so that recordings contain no accounts of a machine.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const SHADOW: &str =
    "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\nshadow:x:42:\nnogroup:x:65534:\n";
const GSHADOW: &str = "root:*::\ndaemon:*::\nshadow:*::\nnogroup:*::\n";

/// Names of temporary files of Puppet and of `rpcd`.
static TEMPORARY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\d{8}-\d+-[0-9a-z]+)|\.muster-[0-9A-Za-z]+\.tmp").unwrap());

/// The files of a private `/etc` that are compared.
const COMPARED_ETC_FILES: [&str; 5] = ["passwd", "shadow", "group", "gshadow", "hosts"];

/// The contents of a scratch root: a line for each path.
pub(crate) type DirectoryTree = BTreeMap<String, String>;

#[derive(Debug)]
pub(crate) struct ScratchRoot {
    home: TempDir,
    etc: bool,
}

impl ScratchRoot {
    /// An empty scratch root, with a private `/etc` if requested.
    pub(crate) fn new(etc: bool) -> Self {
        let home = tempfile::Builder::new().prefix("parity").rand_bytes(8).tempdir().unwrap();
        fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let scratch = Self { home, etc };
        fs::create_dir(scratch.root()).unwrap();
        fs::set_permissions(scratch.root(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(scratch.state()).unwrap();
        if etc {
            scratch.make_etc();
        }
        scratch
    }

    /// The directory that the catalog changes.
    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    /// The directory for the state that is kept between runs.
    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The private `/etc`, if any.
    pub(crate) fn etc(&self) -> Option<PathBuf> {
        self.etc.then(|| self.home.path().join("etc"))
    }

    /// Writes a catalog of the corpus to a file, with the path of this scratch root.
    pub(crate) fn catalog(&self, text: &str) -> PathBuf {
        let path = self.home.path().join("catalog.json");
        fs::write(&path, text.replace(CORPUS_ROOT, self.root().to_str().unwrap())).unwrap();
        path
    }

    /// Replaces the path of the scratch root and the names of temporary files, as in the corpus.
    pub(crate) fn normalize(&self, text: &str) -> String {
        let text = text.replace(self.root().to_str().unwrap(), CORPUS_ROOT);
        TEMPORARY.replace_all(&text, "@TEMPORARY@").into_owned()
    }

    #[expect(clippy::disallowed_types, reason = "copies a directory with all its attributes")]
    fn make_etc(&self) {
        let etc = self.home.path().join("etc");
        let copied = std::process::Command::new("cp")
            .arg("--archive")
            .arg("/etc")
            .arg(&etc)
            .output()
            .unwrap();
        assert!(etc.is_dir(), "{copied:?}");
        for (name, text) in
            [("passwd", PASSWD), ("shadow", SHADOW), ("group", GROUP), ("gshadow", GSHADOW)]
        {
            fs::write(etc.join(name), text).unwrap();
            let _ = fs::remove_file(etc.join(format!("{name}-")));
        }
        for name in ["subuid", "subgid"] {
            let _ = fs::remove_file(etc.join(name));
        }
        fs::remove_dir_all(etc.join("skel")).unwrap();
        fs::create_dir(etc.join("skel")).unwrap();
        fs::write(etc.join("skel/.profile"), "# a profile\n").unwrap();
        fs::write(etc.join("hosts"), "127.0.0.1\tlocalhost\n").unwrap();
    }

    /// Executes a step, except runs.
    pub(crate) fn prepare(&self, step: &ScenarioStep) {
        let root = self.root();
        match step {
            ScenarioStep::Dir { path, mode } => self.create_directory(&root.join(path), *mode),
            ScenarioStep::File { path, mode, text } => {
                let path = root.join(path);
                self.create_parent(&path);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, PermissionsExt::from_mode(*mode)).unwrap();
            }
            ScenarioStep::Link { path, target } => symlink(target, root.join(path)).unwrap(),
            ScenarioStep::Remove { path } => fs::remove_file(root.join(path)).unwrap(),
            ScenarioStep::EtcFile { name, text } => {
                fs::write(self.etc().unwrap().join(name), text).unwrap();
            }
            ScenarioStep::EtcCommand { words } => self.run_in_etc(words),
            ScenarioStep::Run(_) => {}
        }
    }

    fn create_directory(&self, path: &Path, mode: u32) {
        self.create_parent(path);
        if !path.exists() {
            fs::create_dir(path).unwrap();
        }
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn create_parent(&self, path: &Path) {
        let parent = path.parent().unwrap();
        if parent != self.root() && !parent.exists() {
            self.create_directory(parent, 0o755);
        }
    }

    #[expect(clippy::disallowed_types, reason = "runs account tools in a mount namespace")]
    fn run_in_etc(&self, command: &[String]) {
        let etc = self.etc().unwrap();
        let [program, arguments @ ..] = enter_etc(&etc);
        let output =
            std::process::Command::new(program).args(arguments).args(command).output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
    }

    /// Describes the scratch root and the private `/etc`.
    pub(crate) fn tree(&self) -> DirectoryTree {
        let mut tree = DirectoryTree::new();
        self.describe_directory(&self.root(), "", &mut tree);
        for name in self.etc().iter().flat_map(|_| COMPARED_ETC_FILES) {
            let text = fs::read_to_string(self.etc().unwrap().join(name)).unwrap();
            tree.insert(
                format!("/etc/{name}"),
                self.normalize(&without_days(name, &without_header(&text))),
            );
        }
        tree
    }

    fn describe_directory(&self, directory: &Path, prefix: &str, tree: &mut DirectoryTree) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mut line = String::new();
            if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                line = format!("link to {}", target.display());
            } else if metadata.is_dir() {
                write!(line, "directory {}", mode_and_owner(&metadata)).unwrap();
                self.describe_directory(&path, &format!("{name}/"), tree);
            } else {
                write!(
                    line,
                    "file {} {}",
                    mode_and_owner(&metadata),
                    content_text(&fs::read(&path).unwrap())
                )
                .unwrap();
            }
            tree.insert(name, self.normalize(&line));
        }
    }

    /// Executes all steps of a scenario; returns the result of `run` and the contents after each run.
    pub(crate) fn play_steps<T>(
        &self,
        scenario: &Scenario,
        mut run: impl FnMut(&Self, &super::scenario::ApplyFlags) -> T,
    ) -> Vec<(T, DirectoryTree)> {
        let mut outcomes = Vec::new();
        for step in &scenario.steps {
            self.prepare(step);
            if let ScenarioStep::Run(flags) = step {
                let outcome = run(self, flags);
                outcomes.push((outcome, self.tree()));
            }
        }
        outcomes
    }
}

/// The start of a command line that runs the remaining arguments with another `/etc`.
pub(crate) fn enter_etc(etc: &Path) -> [String; 6] {
    let script = "mount --bind \"$0\" /etc && exec \"$@\"";
    ["unshare", "--mount", "sh", "-c", script, etc.to_str().unwrap()].map(str::to_owned)
}

/// Mode and owner; the user of the tests is shown as `own_user`.
fn mode_and_owner(metadata: &fs::Metadata) -> String {
    let own_user = nix::unistd::geteuid().as_raw();
    let own_group = nix::unistd::getegid().as_raw();
    let name = |id: u32, own: u32| {
        if id == own { "me".to_owned() } else { id.to_string() }
    };
    format!(
        "{:04o} {}:{}",
        metadata.mode() & 0o7777,
        name(metadata.uid(), own_user),
        name(metadata.gid(), own_group)
    )
}

/// The text, or the bytes if it is not text.
fn content_text(content: &[u8]) -> String {
    match std::str::from_utf8(content) {
        Ok(text) => format!("{:?}", without_header(text)),
        Err(_) => format!("{content:02x?}"),
    }
}

/// Removes the header with the time that Puppet writes to its files; `rpcd` writes no such header.
pub(crate) fn without_header(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("# HEADER:")).collect()
}

/// Removes the day of the last password change, which is the day of the test.
fn without_days(name: &str, text: &str) -> String {
    if name != "shadow" {
        return text.to_owned();
    }
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(day) = fields.get_mut(2) {
            *day = "";
        }
        fields.join(":") + "\n"
    };
    text.lines().map(line).collect()
}
