//! How a plugin crate registers itself with the daemon: its options, its agents and its data sources.
//!
//! A crate implements [`NodePlugin`] for one type; the daemon's list of plugins names that type. The daemon parses the section `[plugins.NAME]` of its
//! configuration once, at start, and builds the plugin from it.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    Agent, AgentError, DataSourceError, HistoryRecorder, StateChanges, StateSource,
    ValidatedDataSource,
};

/// What every plugin may know about the daemon that loads it.
#[derive(Debug, Clone, Default)]
pub struct DaemonContext {
    /// Root of the file system that the node manages, usually `/`.
    pub root: PathBuf,
    /// The daemon's state directory. A plugin keeps its files in a directory of its own below it.
    pub state: PathBuf,
    /// Configuration, state, audit log and credentials of the daemon, as paths of the host. No action for callers may touch them.
    pub own_paths: Vec<PathBuf>,
    /// Notified when the state that a plugin reports has changed.
    pub state_changes: StateChanges,
    /// Records in the fleet's history what happens on the node.
    pub history: HistoryRecorder,
}

/// A set of agents and data sources with common options.
pub trait NodePlugin: Sized {
    /// The name of the plugin and of its section in the configuration.
    const NAME: &'static str;
    /// The options. [`NoOptions`] if there are none. Reject unknown keys with `#[serde(deny_unknown_fields)]`.
    type Options: DeserializeOwned;
    /// What the plugin shares with the daemon or with other plugins; `()` if nothing.
    type Shared;

    /// Creates the plugin. Writes no file: the daemon also calls this to check its configuration while another one runs.
    fn configure(
        options: Self::Options,
        daemon: &DaemonContext,
        shared: Self::Shared,
    ) -> PluginResult<Self>;

    /// Builds the agent with every action that its DDL declares.
    fn build_agent(&self) -> Result<Agent, AgentError>;

    /// Whether the options enable the agent. By default they do.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Builds the agents that the options enable.
    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        let agent = self.is_enabled().then(|| self.build_agent()).transpose()?;
        Ok(Vec::from_iter(agent))
    }

    /// Builds the data sources for filters and `get_data`. None by default.
    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(Vec::new())
    }

    /// The subsystems whose state the node reports. None by default.
    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        Vec::new()
    }

    /// Parses the options; `section` is the content of `[plugins.NAME]`, empty if the configuration has none.
    fn parse_options(section: Map<String, Value>) -> PluginResult<Self::Options> {
        serde_json::from_value(Value::Object(section))
            .map_err(|source| PluginError::Section { plugin: Self::NAME, source })
    }
}

/// A [`NodePlugin`] without options and without anything shared.
pub trait StatelessPlugin: Default {
    /// The name of the plugin. Its section in the configuration is empty.
    const NAME: &'static str;

    /// Builds the agent with every action that its DDL declares.
    fn create_agent() -> Result<Agent, AgentError>;

    /// Builds the data sources for filters and `get_data`. None by default.
    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(Vec::new())
    }
}

impl<P: StatelessPlugin> NodePlugin for P {
    const NAME: &'static str = <P as StatelessPlugin>::NAME;
    type Options = NoOptions;
    type Shared = ();

    fn configure(_: NoOptions, _: &DaemonContext, (): ()) -> PluginResult<Self> {
        Ok(Self::default())
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        P::create_agent()
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        P::create_data_sources()
    }
}

/// The options of a plugin without options: every key is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

/// What configures a plugin, or why it cannot.
pub type PluginResult<T> = Result<T, PluginError>;

/// Why a plugin cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The section of the configuration has an unknown key or a value of the wrong type.
    #[error("the configuration section [plugins.{plugin}] is not valid")]
    Section {
        /// The plugin's name.
        plugin: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// An option has a value that the plugin cannot use.
    #[error("the option `{option}` in the configuration section [plugins.{plugin}] is not valid")]
    Option {
        /// The plugin's name.
        plugin: &'static str,
        /// The option's name.
        option: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Empty;

    impl StatelessPlugin for Empty {
        const NAME: &'static str = "empty";

        fn create_agent() -> Result<Agent, AgentError> {
            Agent::builtin("empty")?.build()
        }
    }

    #[test]
    fn plugin_without_options_rejects_every_key() {
        assert_eq!(Empty::parse_options(Map::new()).unwrap(), NoOptions {});
        let section = json!({"enabled": true}).as_object().unwrap().clone();
        let error = Empty::parse_options(section).unwrap_err();
        assert_eq!(error.to_string(), "the configuration section [plugins.empty] is not valid");
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains("unknown field `enabled`"), "{cause}");
    }

    #[test]
    fn plugin_has_no_data_sources_by_default() {
        let daemon = DaemonContext::default();
        let plugin = Empty::configure(NoOptions {}, &daemon, ()).unwrap();
        let error = plugin.agents().unwrap_err();
        assert_eq!(error.to_string(), "there is no built-in DDL of an agent `empty`");
        assert!(plugin.data_sources().unwrap().is_empty());
    }
}
