//! One manifest of the corpus, and what its head says about the world that it is applied in.
//!
//! Lines that begin with `#:` are steps, done in their order: `dir PATH [MODE]`, `file PATH MODE TEXT`, `link PATH TARGET`,
//! `remove PATH`, `etc-file NAME TEXT`, `etc-command WORDS`, `run [--noop] [--tags A,B] [--skip_tags A,B]`, and `needs WORDS` for
//! what the machine must have. A manifest that says nothing of runs is run twice: the second run shows what is left to do.

use std::path::{Path, PathBuf};

/// Where the world is in manifests, catalogs and recordings.
pub(crate) const ROOT: &str = "/parity-root";

/// A step of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Dir { path: String, mode: u32 },
    File { path: String, mode: u32, text: String },
    Link { path: String, target: String },
    Remove { path: String },
    EtcFile { name: String, text: String },
    EtcCommand { words: Vec<String> },
    Run(Flags),
}

/// How a catalog is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) noop: bool,
    pub(crate) tags: Option<String>,
    pub(crate) skip_tags: Option<String>,
}

/// What the machine must have for a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The right to change owners.
    Root,
    /// An `/etc` of its own, by a mount namespace.
    Etc,
    /// A dpkg database.
    Dpkg,
    /// A crontab program.
    Crontab,
    /// The real thing to compare with: what is found is the machine's own, so it is not recorded.
    Live,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) needs: Vec<Need>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// Every scenario of the corpus, by name.
    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(corpus().join("manifests"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names.into_iter().map(Self::named).collect()
    }

    fn named(name: String) -> Self {
        let path = corpus().join("manifests").join(format!("{name}.pp"));
        let manifest = std::fs::read_to_string(&path).unwrap();
        let mut scenario = Self { name, needs: Vec::new(), steps: Vec::new() };
        for line in manifest.lines().filter_map(|line| line.strip_prefix("#: ")) {
            scenario
                .read(line)
                .unwrap_or_else(|| panic!("{}: cannot read the step `{line}`", path.display()));
        }
        if !scenario.steps.iter().any(|step| matches!(step, Step::Run(_))) {
            scenario.steps.extend([(); 2].map(|()| Step::Run(Flags::default())));
        }
        scenario
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let step = match (verb, words.as_slice()) {
            ("needs", needs) => {
                for need in needs {
                    self.needs.push(Need::read(need)?);
                }
                return Some(());
            }
            ("dir", [path]) => Step::Dir { path: (*path).to_owned(), mode: 0o755 },
            ("dir", [path, mode]) => Step::Dir { path: (*path).to_owned(), mode: octal(mode)? },
            ("file", [_, ..]) => {
                let mut parts = rest.splitn(3, ' ');
                let (path, mode) = (parts.next()?.to_owned(), octal(parts.next()?)?);
                let text = unescape(parts.next().unwrap_or_default());
                Step::File { path, mode, text }
            }
            ("link", [path, target]) => {
                Step::Link { path: (*path).to_owned(), target: (*target).to_owned() }
            }
            ("remove", [path]) => Step::Remove { path: (*path).to_owned() },
            ("etc-file", [_, ..]) => {
                let (name, text) = rest.split_once(' ')?;
                Step::EtcFile { name: name.to_owned(), text: unescape(text) }
            }
            ("etc-command", words @ [_, ..]) => {
                Step::EtcCommand { words: words.iter().map(|word| (*word).to_owned()).collect() }
            }
            ("run", flags) => Step::Run(Flags::read(flags)?),
            _ => return None,
        };
        self.steps.push(step);
        Some(())
    }

    pub(crate) fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        corpus().join("manifests").join(format!("{}.pp", self.name))
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        corpus().join("catalogs").join(format!("{}.json", self.name))
    }

    pub(crate) fn recording(&self) -> PathBuf {
        corpus().join("recorded").join(format!("{}.json", self.name))
    }
}

impl Need {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "root" => Self::Root,
            "etc" => Self::Etc,
            "dpkg" => Self::Dpkg,
            "crontab" => Self::Crontab,
            "live" => Self::Live,
            _ => return None,
        })
    }
}

impl Flags {
    fn read(words: &[&str]) -> Option<Self> {
        let mut flags = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--noop" => flags.noop = true,
                "--tags" => flags.tags = Some((*words.next()?).to_owned()),
                "--skip_tags" => flags.skip_tags = Some((*words.next()?).to_owned()),
                _ => return None,
            }
        }
        Some(flags)
    }
}

/// `tests/parity`.
pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("parity")
}

fn octal(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 8).ok()
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}
