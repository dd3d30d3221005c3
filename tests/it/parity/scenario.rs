//! One manifest of the corpus, and the steps in its header.
//!
//! Lines that begin with `#:` are steps, executed in order: `dir PATH [MODE]`, `file PATH MODE TEXT`, `link PATH
//! TARGET`, `remove PATH`, `etc-file NAME TEXT`, `etc-command WORDS`, `run [--noop] [--tags A,B] [--skip_tags A,B]`;
//! `needs WORDS` lists requirements of the machine. A manifest without a `run` step is run twice: the second run shows
//! remaining changes.

use std::path::{Path, PathBuf};

/// The path of the scratch root in manifests, catalogs and recordings.
pub(crate) const CORPUS_ROOT: &str = "/parity-root";

/// A step of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScenarioStep {
    Dir { path: String, mode: u32 },
    File { path: String, mode: u32, text: String },
    Link { path: String, target: String },
    Remove { path: String },
    EtcFile { name: String, text: String },
    EtcCommand { words: Vec<String> },
    Run(ApplyFlags),
}

/// The flags of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ApplyFlags {
    pub(crate) noop: bool,
    pub(crate) tags: Option<String>,
    pub(crate) skip_tags: Option<String>,
}

/// A requirement of a scenario on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// The right to change owners.
    Root,
    /// A private `/etc`, in a mount namespace.
    Etc,
    /// A dpkg database.
    Dpkg,
    /// A crontab program.
    Crontab,
    /// A live Puppet: the result depends on the machine, so it is not recorded.
    Live,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) needs: Vec<Requirement>,
    pub(crate) steps: Vec<ScenarioStep>,
}

impl Scenario {
    /// Every scenario of the corpus, by name.
    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(corpus_directory().join("manifests"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names.into_iter().map(Self::load).collect()
    }

    fn load(name: String) -> Self {
        let path = corpus_directory().join("manifests").join(format!("{name}.pp"));
        let manifest = std::fs::read_to_string(&path).unwrap();
        let mut scenario = Self { name, needs: Vec::new(), steps: Vec::new() };
        for line in manifest.lines().filter_map(|line| line.strip_prefix("#: ")) {
            scenario
                .parse(line)
                .unwrap_or_else(|| panic!("{}: cannot read the step `{line}`", path.display()));
        }
        if !scenario.steps.iter().any(|step| matches!(step, ScenarioStep::Run(_))) {
            scenario.steps.extend([(); 2].map(|()| ScenarioStep::Run(ApplyFlags::default())));
        }
        scenario
    }

    fn parse(&mut self, line: &str) -> Option<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let step = match (verb, words.as_slice()) {
            ("needs", needs) => {
                for need in needs {
                    self.needs.push(Requirement::parse(need)?);
                }
                return Some(());
            }
            ("dir", [path]) => ScenarioStep::Dir { path: (*path).to_owned(), mode: 0o755 },
            ("dir", [path, mode]) => {
                ScenarioStep::Dir { path: (*path).to_owned(), mode: octal(mode)? }
            }
            ("file", [_, ..]) => {
                let mut parts = rest.splitn(3, ' ');
                let (path, mode) = (parts.next()?.to_owned(), octal(parts.next()?)?);
                let text = unescape(parts.next().unwrap_or_default());
                ScenarioStep::File { path, mode, text }
            }
            ("link", [path, target]) => {
                ScenarioStep::Link { path: (*path).to_owned(), target: (*target).to_owned() }
            }
            ("remove", [path]) => ScenarioStep::Remove { path: (*path).to_owned() },
            ("etc-file", [_, ..]) => {
                let (name, text) = rest.split_once(' ')?;
                ScenarioStep::EtcFile { name: name.to_owned(), text: unescape(text) }
            }
            ("etc-command", words @ [_, ..]) => ScenarioStep::EtcCommand {
                words: words.iter().map(|word| (*word).to_owned()).collect(),
            },
            ("run", flags) => ScenarioStep::Run(ApplyFlags::parse(flags)?),
            _ => return None,
        };
        self.steps.push(step);
        Some(())
    }

    pub(crate) fn needs(&self, need: Requirement) -> bool {
        self.needs.contains(&need)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        corpus_directory().join("manifests").join(format!("{}.pp", self.name))
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        corpus_directory().join("catalogs").join(format!("{}.json", self.name))
    }

    pub(crate) fn recording(&self) -> PathBuf {
        corpus_directory().join("recorded").join(format!("{}.json", self.name))
    }
}

impl Requirement {
    fn parse(word: &str) -> Option<Self> {
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

impl ApplyFlags {
    fn parse(words: &[&str]) -> Option<Self> {
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

/// The directory `tests/parity`.
pub(crate) fn corpus_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("parity")
}

fn octal(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 8).ok()
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}
