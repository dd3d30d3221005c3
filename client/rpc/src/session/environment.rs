//! The environment variables of `rpc`, read once. Precedence is decided elsewhere.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use muster_wire::trace::TRACEPARENT_VARIABLE;

/// The client's configuration file.
pub const CONFIG: &str = "RPC_CONFIG";
/// The name of a context, instead of the selected one.
pub const CONTEXT: &str = "RPC_CONTEXT";
/// The client's credentials, instead of those that the configuration names.
pub const CREDENTIALS: &str = "RPC_CREDENTIALS";
/// The directory of the organisation.
pub const ORGANISATION: &str = "MUSTER_ORG";
/// The `nats-server` program.
pub const NATS_SERVER: &str = "NATS_SERVER";
/// The `rpcd` program.
pub const RPCD: &str = "RPCD";

/// The relevant environment variables. Empty variables count as unset.
#[derive(Debug, Clone, Default)]
pub struct ProcessEnvironment {
    pub config: Option<PathBuf>,
    pub context: Option<String>,
    pub credentials: Option<PathBuf>,
    pub organisation: Option<PathBuf>,
    pub nats_server: Option<PathBuf>,
    pub rpcd: Option<PathBuf>,
    /// User configuration directory: `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: Option<PathBuf>,
    /// User cache directory: `XDG_CACHE_HOME`, or `~/.cache`.
    pub cache_home: Option<PathBuf>,
    /// Text width without a terminal: `COLUMNS`.
    pub columns: Option<usize>,
    /// User state directory: `XDG_STATE_HOME`, or `~/.local/state`.
    pub state_home: Option<PathBuf>,
    /// The trace context of the parent process: `TRACEPARENT`.
    pub traceparent: Option<String>,
    /// Search path of programs: `PATH`.
    pub path: Option<OsString>,
    /// This program's file.
    pub program: Option<PathBuf>,
    /// Whether output may contain characters beyond ASCII: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set names UTF-8.
    pub utf8: bool,
    /// Whether the user wants no colours: `NO_COLOR` is set, or `TERM` is `dumb`.
    pub is_plain: bool,
}

/// Whether a locale name, such as `de_DE.UTF-8`, specifies UTF-8.
fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

impl ProcessEnvironment {
    pub fn from_process() -> Self {
        let value = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| value(name).map(PathBuf::from);
        let home_path = |name: &str| path("HOME").map(|home| home.join(name));
        Self {
            config: path(CONFIG),
            context: value(CONTEXT).map(|name| name.to_string_lossy().into_owned()),
            credentials: path(CREDENTIALS),
            organisation: path(ORGANISATION),
            nats_server: path(NATS_SERVER),
            rpcd: path(RPCD),
            config_home: path("XDG_CONFIG_HOME").or_else(|| home_path(".config")),
            cache_home: path("XDG_CACHE_HOME").or_else(|| home_path(".cache")),
            columns: value("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok()),
            state_home: path("XDG_STATE_HOME").or_else(|| home_path(".local/state")),
            traceparent: value(TRACEPARENT_VARIABLE).and_then(|text| text.into_string().ok()),
            path: value("PATH"),
            program: env::current_exe().ok(),
            utf8: ["LC_ALL", "LC_CTYPE", "LANG"]
                .iter()
                .find_map(|name| value(name)?.into_string().ok())
                .is_some_and(|locale| is_utf8(&locale)),
            is_plain: value("NO_COLOR").is_some()
                || value("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// This program's cache directory; `None` without a home directory.
    pub fn cache_directory(&self) -> Option<PathBuf> {
        self.cache_home.as_ref().map(|home| home.join("muster"))
    }

    /// The directory of this program; in a build directory it also has `rpcd`, and `../tools` has what `make tools` downloads.
    pub fn program_directory(&self) -> Option<&Path> {
        self.program.as_deref().and_then(Path::parent)
    }

    /// The directory of the client's configuration; `None` without a home directory.
    pub fn client_directory(&self) -> Option<PathBuf> {
        self.config_home.as_ref().map(|home| home.join("muster"))
    }

    /// The directory of the organisation that `rpc org init --quick` creates.
    pub fn default_organisation(&self) -> Option<PathBuf> {
        self.client_directory().map(|directory| directory.join("organisation"))
    }

    /// The rpcd program: the one that [`RPCD`] names, or else beside this program, or the first in `PATH`.
    pub fn find_daemon(&self) -> Option<PathBuf> {
        if let Some(named) = &self.rpcd {
            return named.is_file().then(|| named.clone());
        }
        let sibling = self.program.as_ref().map(|program| program.with_file_name("rpcd"));
        sibling.filter(|path| path.is_file()).or_else(|| self.find_program("rpcd"))
    }

    /// Finds the first file with this name in `PATH`.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let directories = self.path.as_ref()?;
        env::split_paths(directories)
            .map(|directory| directory.join(name))
            .find(|path| path.is_file())
    }
}
