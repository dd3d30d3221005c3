//! A scratch world: a directory that a catalog is applied to, and what it looks like afterwards.
//!
//! Two worlds of one scenario have paths of the same length, and are told apart from the corpus' own root by replacing text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use tempfile::TempDir;

use super::scenario::{ROOT, Scenario, Step};

/// The accounts of a private `/etc`, so that no machine's own are in a recording.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const SHADOW: &str =
    "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\nshadow:x:42:\nnogroup:x:65534:\n";
const GSHADOW: &str = "root:*::\ndaemon:*::\nshadow:*::\nnogroup:*::\n";

/// Names of temporary files, Puppet's and ours.
static TEMPORARY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\d{8}-\d+-[0-9a-z]+)|\.muster-[0-9A-Za-z]+\.tmp").unwrap());

/// The files of a private `/etc` that are looked at.
const ETC: [&str; 5] = ["passwd", "shadow", "group", "gshadow", "hosts"];

/// What is where: a line for each path.
pub(crate) type Tree = BTreeMap<String, String>;

#[derive(Debug)]
pub(crate) struct World {
    home: TempDir,
    etc: bool,
}

impl World {
    /// An empty one; with a private `/etc` beside it if asked for.
    pub(crate) fn new(etc: bool) -> Self {
        let home = tempfile::Builder::new().prefix("parity").rand_bytes(8).tempdir().unwrap();
        fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let world = Self { home, etc };
        fs::create_dir(world.root()).unwrap();
        fs::set_permissions(world.root(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(world.state()).unwrap();
        if etc {
            world.make_etc();
        }
        world
    }

    /// Where the catalog is at work.
    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    /// Where the one who applies keeps what it must remember from run to run.
    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The private `/etc`, if there is one.
    pub(crate) fn etc(&self) -> Option<PathBuf> {
        self.etc.then(|| self.home.path().join("etc"))
    }

    /// A catalog of the corpus, as a file of this world.
    pub(crate) fn catalog(&self, text: &str) -> PathBuf {
        let path = self.home.path().join("catalog.json");
        fs::write(&path, text.replace(ROOT, self.root().to_str().unwrap())).unwrap();
        path
    }

    /// The same text as in the corpus: the root's name, and no names of temporary files.
    pub(crate) fn normal(&self, text: &str) -> String {
        let text = text.replace(self.root().to_str().unwrap(), ROOT);
        TEMPORARY.replace_all(&text, "@TEMPORARY@").into_owned()
    }

    #[expect(clippy::disallowed_types, reason = "copies a directory with everything about it")]
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

    /// Does what a step asks for; runs are not this one's.
    pub(crate) fn prepare(&self, step: &Step) {
        let root = self.root();
        match step {
            Step::Dir { path, mode } => self.dir(&root.join(path), *mode),
            Step::File { path, mode, text } => {
                let path = root.join(path);
                self.dir_above(&path);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, PermissionsExt::from_mode(*mode)).unwrap();
            }
            Step::Link { path, target } => symlink(target, root.join(path)).unwrap(),
            Step::Remove { path } => fs::remove_file(root.join(path)).unwrap(),
            Step::EtcFile { name, text } => {
                fs::write(self.etc().unwrap().join(name), text).unwrap();
            }
            Step::EtcCommand { words } => self.run_in_etc(words),
            Step::Run(_) => {}
        }
    }

    fn dir(&self, path: &Path, mode: u32) {
        self.dir_above(path);
        if !path.exists() {
            fs::create_dir(path).unwrap();
        }
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn dir_above(&self, path: &Path) {
        let parent = path.parent().unwrap();
        if parent != self.root() && !parent.exists() {
            self.dir(parent, 0o755);
        }
    }

    #[expect(clippy::disallowed_types, reason = "runs account tools in a mount namespace")]
    fn run_in_etc(&self, words: &[String]) {
        let etc = self.etc().unwrap();
        let [program, arguments @ ..] = enter_etc(&etc);
        let output =
            std::process::Command::new(program).args(arguments).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// What the world looks like.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.look(&self.root(), "", &mut tree);
        for name in self.etc().iter().flat_map(|_| ETC) {
            let text = fs::read_to_string(self.etc().unwrap().join(name)).unwrap();
            tree.insert(
                format!("/etc/{name}"),
                self.normal(&without_days(name, &without_header(&text))),
            );
        }
        tree
    }

    fn look(&self, directory: &Path, place: &str, tree: &mut Tree) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{place}{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mut line = String::new();
            if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                line = format!("link to {}", target.display());
            } else if metadata.is_dir() {
                write!(line, "directory {}", about(&metadata)).unwrap();
                self.look(&path, &format!("{name}/"), tree);
            } else {
                write!(line, "file {} {}", about(&metadata), shown(&fs::read(&path).unwrap()))
                    .unwrap();
            }
            tree.insert(name, self.normal(&line));
        }
    }

    /// All steps of a scenario; what `run` says after each run, with the tree.
    pub(crate) fn play<T>(
        &self,
        scenario: &Scenario,
        mut run: impl FnMut(&Self, &super::scenario::Flags) -> T,
    ) -> Vec<(T, Tree)> {
        let mut outcomes = Vec::new();
        for step in &scenario.steps {
            self.prepare(step);
            if let Step::Run(flags) = step {
                let outcome = run(self, flags);
                outcomes.push((outcome, self.tree()));
            }
        }
        outcomes
    }
}

/// The beginning of a command line that runs the rest with another `/etc`.
pub(crate) fn enter_etc(etc: &Path) -> [String; 6] {
    let script = "mount --bind \"$0\" /etc && exec \"$@\"";
    ["unshare", "--mount", "sh", "-c", script, etc.to_str().unwrap()].map(str::to_owned)
}

/// Mode and owner; whoever runs the tests is `me`.
fn about(metadata: &fs::Metadata) -> String {
    let me = nix::unistd::geteuid().as_raw();
    let mine = nix::unistd::getegid().as_raw();
    let name = |id: u32, own: u32| {
        if id == own { "me".to_owned() } else { id.to_string() }
    };
    format!(
        "{:04o} {}:{}",
        metadata.mode() & 0o7777,
        name(metadata.uid(), me),
        name(metadata.gid(), mine)
    )
}

/// The text, or the bytes if it is none.
fn shown(content: &[u8]) -> String {
    match std::str::from_utf8(content) {
        Ok(text) => format!("{:?}", without_header(text)),
        Err(_) => format!("{content:02x?}"),
    }
}

/// Puppet tells the time in the files that it keeps; ours does not write such a head.
fn without_header(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("# HEADER:")).collect()
}

/// The day of a password's last change is the day of the test.
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
