//! The section `[plugins.compiler]`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use muster_directory::{NodeTable, find_nodes};
use muster_filter::NodeFilter;
use serde::Deserialize;

use crate::compiler::CompileLimits;

const DEFAULT_RUBY: &str = "/usr/bin/ruby";
const DEFAULT_DIRECTORY: &str = "/var/cache/muster/catalogs";
const DEFAULT_LEASE_SECONDS: u64 = 30;
const MIN_LEASE_SECONDS: u64 = 2;
/// How often a repository is fetched without an announcement.
const DEFAULT_POLL_SECONDS: u64 = 300;
const DEFAULT_KEPT_RELEASES: usize = 20;
const MIB: u64 = 1024 * 1024;

/// The section `[plugins.compiler]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompilerServiceOptions {
    /// Whether this host compiles catalogs.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
    /// A file with 64 hexadecimal digits, the same on all hosts that compile: secrets are digested with it. The only such host makes one if absent.
    pub secret_key: Option<PathBuf>,
    /// Repositories, checkouts and compilers are here, and can be removed while the daemon is stopped; `/var/cache/muster/catalogs` if absent. The
    /// compiler's user must be able to enter the directories above it.
    pub directory: Option<PathBuf>,
    /// The user of the compiler. It must own no files; `nobody` if absent.
    pub user: Option<String>,
    /// The Ruby that has Puppet; `/usr/bin/ruby` if absent.
    pub ruby: Option<PathBuf>,
    /// Compiles of an environment at once; the number of processors if absent.
    pub parallel: Option<usize>,
    /// Another host compiles a node when this one has been silent for this time; 30 s if absent.
    pub lease_seconds: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub memory_mib: Option<u64>,
    pub timeout_seconds: Option<u64>,
    /// A catalog that read the time, a random number or a program is compiled again after this time; never if absent.
    pub external_max_age_seconds: Option<u64>,
    /// Releases that are kept although no node was given them; 20 if absent.
    pub keep_releases: Option<usize>,
    /// Environments by name. A node belongs to the first one, by name, whose filter it matches.
    pub environments: BTreeMap<String, EnvironmentOptions>,
}

/// One environment: its code, and its nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentOptions {
    /// A git repository: a path or an address.
    pub repository: Option<String>,
    /// Its branch; that with the name of the environment if absent.
    pub branch: Option<String>,
    /// A directory with the code, in place of a repository.
    pub directory: Option<PathBuf>,
    /// A program that completes a checkout, such as r10k for a Puppetfile. Its working directory is the checkout.
    pub prepare: Vec<String>,
    /// A program with its arguments that compiles in place of Puppet's own compiler. Its working directory is the checkout.
    pub program: Vec<String>,
    /// Which nodes belong to it, an expression as for `-S`; all that belong to no other one if absent.
    pub nodes: Option<String>,
    pub poll_seconds: Option<u64>,
}

impl CompilerServiceOptions {
    pub fn ruby(&self) -> PathBuf {
        self.ruby.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_RUBY))
    }

    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
    }

    pub fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("nobody")
    }

    pub fn lease(&self) -> Duration {
        let seconds = self.lease_seconds.unwrap_or(DEFAULT_LEASE_SECONDS);
        Duration::from_secs(seconds.max(MIN_LEASE_SECONDS))
    }

    pub fn parallel(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.parallel.unwrap_or_else(processors).max(1)
    }

    pub fn limits(&self) -> CompileLimits {
        let default = CompileLimits::default();
        CompileLimits {
            cpu_seconds: self.cpu_seconds.unwrap_or(default.cpu_seconds),
            memory_bytes: self.memory_mib.map_or(default.memory_bytes, |mib| mib * MIB),
            timeout: self.timeout_seconds.map_or(default.timeout, Duration::from_secs),
        }
    }

    pub fn keep_releases(&self) -> usize {
        self.keep_releases.unwrap_or(DEFAULT_KEPT_RELEASES)
    }

    pub fn external_max_age(&self) -> Option<Duration> {
        self.external_max_age_seconds.map(Duration::from_secs)
    }

    /// The programs that compile in place of Puppet's own compiler, by environment.
    pub fn programs(&self) -> HashMap<String, Vec<String>> {
        let all = self.environments.iter();
        let named = all.filter(|(_, options)| !options.program.is_empty());
        named.map(|(name, options)| (name.clone(), options.program.clone())).collect()
    }

    /// The environments in the order in which a node is matched. Checks them without opening anything.
    pub fn environments(&self) -> Result<Vec<Environment>, EnvironmentError> {
        if self.environments.is_empty() {
            return Err(EnvironmentError::None);
        }
        let parse = |(name, options): (&String, &EnvironmentOptions)| {
            Environment::parse(name, options)
                .map_err(|problem| EnvironmentError::Invalid { name: name.clone(), problem })
        };
        let parsed: Result<Vec<Environment>, _> = self.environments.iter().map(parse).collect();
        let mut environments = parsed?;
        // One without a filter takes the rest.
        environments.sort_by_key(|environment| environment.nodes.is_none());
        match environments.iter().filter(|environment| environment.nodes.is_none()).count() {
            0 | 1 => Ok(environments),
            _ => Err(EnvironmentError::TwoRests),
        }
    }
}

/// The options of environments are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error(
        "there is no environment; add [plugins.compiler.environments.NAME] with `repository` or `directory`"
    )]
    None,
    #[error("environment {name}: {problem}")]
    Invalid { name: String, problem: String },
    #[error("two environments have no `nodes`; only one can have the rest of the nodes")]
    TwoRests,
}

/// Where the code of an environment comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeSource {
    Repository { url: String, branch: String, prepare: Vec<String>, poll: Duration },
    Directory(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    pub name: String,
    pub source: CodeSource,
    /// The nodes that belong to it; `None`: the rest.
    pub nodes: Option<NodeFilter>,
}

impl Environment {
    fn parse(name: &str, options: &EnvironmentOptions) -> Result<Self, String> {
        let is_name =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
            return Err("a name has 1 to 64 of a-z, 0-9 and _, as in Puppet".to_owned());
        }
        if options.program.first().is_some_and(|program| !program.starts_with('/')) {
            return Err("`program` needs an absolute path".to_owned());
        }
        let poll = options.poll_seconds.unwrap_or(DEFAULT_POLL_SECONDS).max(1);
        let source = match (&options.repository, &options.directory) {
            (Some(url), None) => CodeSource::Repository {
                url: url.clone(),
                branch: options.branch.clone().unwrap_or_else(|| name.to_owned()),
                prepare: options.prepare.clone(),
                poll: Duration::from_secs(poll),
            },
            (None, Some(_)) if options.branch.is_some() || !options.prepare.is_empty() => {
                return Err("`branch` and `prepare` need a `repository`".to_owned());
            }
            (None, Some(path)) if path.is_absolute() && path.file_name() == Some(name.as_ref()) => {
                CodeSource::Directory(path.clone())
            }
            (None, Some(path)) => {
                let path = path.display();
                return Err(format!(
                    "`directory` is {path}; give an absolute path that ends in {name}"
                ));
            }
            _ => return Err("give either `repository` or `directory`".to_owned()),
        };
        let nodes = options.nodes.as_deref().map(parse_nodes).transpose()?;
        Ok(Self { name: name.to_owned(), source, nodes })
    }
}

/// A filter that can be evaluated on records.
fn parse_nodes(text: &str) -> Result<NodeFilter, String> {
    let filter = NodeFilter::default().with_select(text);
    let filter = filter.map_err(|error| format!("nodes: {error}"))?;
    find_nodes(&NodeTable::default(), &filter).map_err(|error| format!("nodes: {error}"))?;
    Ok(filter)
}
