//! Client settings from `rpc.toml`: selects the file and validates its keys.
//!
//! The file is the one that the user names, or the first of `~/.config/muster/rpc.toml` and `/etc/muster/rpc.toml`. Paths in it are relative to it.
//! An unknown key is a warning. The file contains no secrets, only paths to them.

mod discovery;
mod file;
mod icinga;

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_calls::{BrokerFollower, BrokerPlace, DiscoverySource};
use muster_files::files::{FileAccessError, read_text};
use muster_wire::identity::SubjectName;
use muster_wire::token::{AccountTrust, KeyKind, PublicKey};

use crate::confirm::ConfirmMode;
use crate::contexts::{ContextError, ContextName};
use file::SettingsFile;
pub use file::SettingsSyntaxError;
pub use icinga::IcingaSettings;

/// Path of the system configuration.
const SYSTEM_FILE: &str = "/etc/muster/rpc.toml";
/// Maximum size of the configuration file in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Maximum size of the account token in bytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;
/// Maximum duration that can be configured.
const MAX_DURATION: Duration = Duration::from_hours(24);
/// Default of `discovery.timeout_seconds`.
const DISCOVERY_TIMEOUT_SECONDS: f64 = 2.0;
/// Default of `confirm_above`.
const CONFIRM_ABOVE_NODES: usize = 25;

/// Settings of commands that send requests to the fleet.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a separate configuration key")]
pub struct RpcSettings {
    /// The configuration file.
    pub file: PathBuf,
    /// Addresses of the brokers, as `tls://host:port`.
    pub urls: Vec<String>,
    /// PEM file of the CA that signed the brokers' certificates; the system's CAs when absent.
    pub ca: Option<PathBuf>,
    /// The caller's `.creds` file.
    pub credentials: PathBuf,
    /// Whether unencrypted connections are allowed to a broker on a loopback address.
    pub plaintext_on_loopback: bool,
    /// Whether the addresses and authorities in the account token are followed.
    pub follow: bool,
    /// The organisation's public key.
    pub operator: PublicKey,
    /// File with the fleet's account token.
    pub account: PathBuf,
    /// The first part of all subjects.
    pub collective: SubjectName,
    /// Discovery's wait for the first reply; it continues while replies keep arriving.
    pub discovery_timeout: Duration,
    /// Discovery's wait after the last reply; the client library's default when absent.
    pub discovery_window: Option<Duration>,
    /// The discovery source, unless the command line selects another.
    pub source: DiscoverySource,
    /// Whether a request that may change something needs a filter.
    pub require_filter: bool,
    /// When changes need confirmation.
    pub confirm: ConfirmMode,
    /// At a terminal: confirm changes to more nodes than this.
    pub confirm_above: usize,
    /// Directory of additional DDLs.
    pub ddls: PathBuf,
    /// Whether sensitive inputs are sent so that the broker can read them, for nodes that are too old to open sealed ones.
    pub plain_secrets: bool,
    /// Whether `rpc ssh`, `rpc scp` and `rpc sftp` ask for certificates.
    pub ssh_certificates: bool,
    /// The API of Icinga 2, for results of checks.
    pub icinga: IcingaSettings,
    /// Directory of cached data; nothing is cached when absent. Not a key of the file.
    pub caches: Option<PathBuf>,
    /// The context that selected the file. Not a key of the file.
    pub context: Option<ContextName>,
    /// Warnings about the file, to be printed.
    pub warnings: Vec<String>,
}

/// Why the settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum RpcSettingsError {
    /// No file is given, and none exists in the default places.
    #[error("no configuration file found; searched {}", list_paths(.0))]
    NotFound(Vec<PathBuf>),
    /// The context cannot be used.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The file cannot be read, or is too large.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// Not TOML, or a value of the wrong type.
    #[error("{}:{}", .0.display(), .1)]
    Syntax(PathBuf, SettingsSyntaxError),
    /// An invalid value.
    #[error("{}: `{key}` {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The dotted key.
        key: &'static str,
        /// What is wrong, and the expected value.
        problem: String,
    },
}

impl RpcSettings {
    /// Finds the configuration file: the one that the user names, or the first default one that exists. `config_home` is the user's configuration
    /// directory.
    pub fn find_file(
        given: Option<&Path>,
        config_home: Option<&Path>,
    ) -> Result<PathBuf, RpcSettingsError> {
        if let Some(given) = given {
            return Ok(given.to_owned());
        }
        let user_file = config_home.map(|home| home.join("muster/rpc.toml"));
        let mut paths: Vec<PathBuf> = user_file.into_iter().chain([SYSTEM_FILE.into()]).collect();
        match paths.iter().position(|path| path.exists()) {
            Some(found) => Ok(paths.swap_remove(found)),
            None => Err(RpcSettingsError::NotFound(paths)),
        }
    }

    /// Reads a configuration file.
    pub fn load(path: &Path) -> Result<Self, RpcSettingsError> {
        let text = read_text(path, MAX_FILE_BYTES)?;
        Self::parse(&std::path::absolute(path).unwrap_or(path.to_owned()), &text)
    }

    /// Parses the text of a configuration file; relative paths are resolved against `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, RpcSettingsError> {
        let (file, unknown) = SettingsFile::parse(text)
            .map_err(|error| RpcSettingsError::Syntax(path.to_owned(), error))?;
        let invalid =
            |key, problem: String| RpcSettingsError::Value { path: path.to_owned(), key, problem };
        let missing = |key, hint: &str| invalid(key, format!("is not set; {hint}"));
        let directory = path.parent().unwrap_or(Path::new(""));
        let resolve = |name: PathBuf| directory.join(name);
        let resolve_or =
            |name: Option<PathBuf>, default| directory.join(name.unwrap_or(PathBuf::from(default)));
        let urls = file.broker.urls;
        if urls.is_empty() {
            return Err(missing(
                "broker.urls",
                "list the brokers, for example urls = [\"tls://broker.acme.net:4222\"]",
            ));
        }
        if urls.iter().any(|url| url.contains('@')) {
            let problem = "contains a user name; credentials belong in the .creds file".to_owned();
            return Err(invalid("broker.urls", problem));
        }
        let operator = file.trust.operator.ok_or_else(|| {
            missing("trust.operator", "set it to the operator's public key, which begins with O")
        })?;
        let operator = PublicKey::parse_kind(&operator, KeyKind::Operator).map_err(|error| {
            invalid("trust.operator", format!("is not an operator's public key: {error}"))
        })?;
        let timeout = file.discovery.timeout_seconds.unwrap_or(DISCOVERY_TIMEOUT_SECONDS);
        let discovery_timeout = Duration::try_from_secs_f64(timeout)
            .ok()
            .filter(|timeout| *timeout <= MAX_DURATION)
            .ok_or_else(|| {
                let problem = format!("is {timeout}; use a number from 0 to 86400");
                invalid("discovery.timeout_seconds", problem)
            })?;
        let collective = file.collective.as_deref().unwrap_or("muster");
        let source = discovery::parse_source(&file.discovery, directory)
            .map_err(|(key, problem)| invalid(key, problem))?;
        let icinga = icinga::parse_icinga(file.icinga, path)
            .map_err(|(key, problem)| invalid(key, problem))?;
        Ok(Self {
            file: path.to_owned(),
            urls,
            ca: file.broker.ca.map(resolve),
            credentials: resolve_or(file.broker.credentials, "user.creds"),
            plaintext_on_loopback: file.broker.plaintext_on_loopback,
            follow: file.broker.follow.unwrap_or(true),
            operator,
            account: resolve_or(file.trust.account, "account.jwt"),
            collective: SubjectName::parse(collective)
                .map_err(|error| invalid("collective", format!("is not a valid name: {error}")))?,
            discovery_timeout,
            discovery_window: file.discovery.window_ms.map(Duration::from_millis),
            source,
            require_filter: file.discovery.require_filter,
            confirm: file.confirm,
            confirm_above: file.confirm_above.unwrap_or(CONFIRM_ABOVE_NODES),
            ddls: resolve_or(file.paths.ddls, "ddl"),
            plain_secrets: file.requests.plain_secrets,
            ssh_certificates: file.ssh.certificates,
            icinga,
            caches: None,
            context: None,
            warnings: unknown.iter().map(|key| format!("{}: {key}", path.display())).collect(),
        })
    }
}

impl RpcSettings {
    /// The key of the fleet's account, if the account token is readable and signed by the operator.
    pub fn fleet_key(&self) -> Option<PublicKey> {
        let token = read_text(&self.account, MAX_TOKEN_BYTES).ok()?;
        Some(AccountTrust::new(self.operator, token.trim()).ok()?.account_key())
    }

    /// Where to connect: the addresses that were followed, and those of the configuration.
    pub fn broker_place(&self) -> BrokerPlace {
        self.broker_follower().map_or_else(|| self.configured_place(), |follower| follower.place())
    }

    /// Configured addresses that the account token no longer has.
    pub fn left_broker_urls(&self) -> Vec<String> {
        self.broker_follower().map_or_else(Vec::new, |follower| follower.left_urls())
    }

    /// Follows the broker with files in the cache of the fleet; `None` without a cache, or if the configuration does not permit it.
    pub(crate) fn broker_follower(&self) -> Option<BrokerFollower> {
        let directory = self.fleet_cache_directory().filter(|_| self.follow)?;
        let place = self.configured_place();
        Some(BrokerFollower::new(directory, place, self.plaintext_on_loopback))
    }

    fn configured_place(&self) -> BrokerPlace {
        BrokerPlace { urls: self.urls.clone(), authority: self.ca.clone() }
    }

    /// The directory of what is cached about this fleet and collective; `None` if nothing is cached.
    pub fn fleet_cache_directory(&self) -> Option<PathBuf> {
        let fleet = self.fleet_key().map_or_else(|| "unknown".to_owned(), |key| key.to_string());
        let caches = self.caches.as_ref()?.join("fleets").join(self.operator.to_string());
        Some(caches.join(fleet).join(self.collective.as_str()))
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
