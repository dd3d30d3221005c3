//! `nrpe`: runs the checks of a node's NRPE configuration, and returns their states, texts and performance data.
//!
//! NRPE itself is not needed. Commands come from `nrpe.cfg` and the files that it includes; they run without a shell, as the configured user, and a
//! limited number at a time. Files of schedules say which of them run all the time; the agent keeps their states as Nagios does, and notifies no one.

mod actions;
mod check_runner;
pub mod command_line;
mod command_table;
pub mod nrpe_file;
mod options;
pub mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::ddl::builtin_data;
use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginResult, StateSource,
    ValidatedDataSource,
};
use muster_contract::nrpe::{
    NrpeAcknowledge, NrpeAgent, NrpeChecks, NrpeEndMaintenance, NrpeMaintenance,
    NrpeRunAllCommands, NrpeRunCommand, NrpeTrigger, NrpeUnacknowledge,
};

use check_runner::CheckRunner;
pub use options::NrpeOptions;
pub use schedule::{CheckMonitor, StoredCheckEvent};

/// Directory of the states of scheduled checks, in the daemon's state directory.
const STATE_DIRECTORY: &str = "checks";

#[derive(Debug, Clone)]
pub struct NrpePlugin {
    runner: CheckRunner,
    monitor: CheckMonitor,
    enabled: bool,
}

impl NrpePlugin {
    /// The scheduled checks; `None` if the agent is off.
    pub fn monitor(&self) -> Option<CheckMonitor> {
        self.enabled.then(|| self.monitor.clone())
    }
}

impl NodePlugin for NrpePlugin {
    const NAME: &'static str = "nrpe";
    type Options = NrpeOptions;
    type Shared = ();

    fn configure(options: NrpeOptions, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        options.check()?;
        let file = options.config.strip_prefix("/").unwrap_or(&options.config);
        let enabled = options.enabled.unwrap_or_else(|| daemon.root.join(file).exists());
        let schedules = options.schedules.clone();
        let runner = CheckRunner::new(options);
        let state = daemon.state.join(STATE_DIRECTORY);
        let monitor =
            CheckMonitor::new(runner.clone(), schedules, state, daemon.state_changes.clone());
        Ok(Self { runner, monitor, enabled })
    }

    fn is_enabled(&self) -> bool {
        self.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<NrpeAgent>()?
            .action(NrpeRunCommand, &self.runner, actions::run_command)
            .action(NrpeRunAllCommands, &self.runner, actions::run_all_commands)
            .action(NrpeChecks, &self.monitor, schedule::actions::list_checks)
            .action(NrpeTrigger, &self.monitor, schedule::actions::trigger_check)
            .action(NrpeAcknowledge, &self.monitor, schedule::actions::acknowledge_check)
            .action(NrpeUnacknowledge, &self.monitor, schedule::actions::unacknowledge_check)
            .action(NrpeMaintenance, &self.monitor, schedule::actions::begin_maintenance)
            .action(NrpeEndMaintenance, &self.monitor, schedule::actions::end_maintenance)
            .ending_at_deadline(NrpeRunCommand)
            .ending_at_deadline(NrpeRunAllCommands)
            .ending_at_deadline(NrpeTrigger)
            .build()
    }

    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        self.monitor()
            .map(|monitor| Arc::new(monitor) as Arc<dyn StateSource>)
            .into_iter()
            .collect()
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        if !self.enabled {
            return Ok(Vec::new());
        }
        let ddl = builtin_data(Self::NAME)
            .ok_or_else(|| DataSourceError::NotBuiltin(Self::NAME.to_owned()))?;
        Ok(vec![ValidatedDataSource::new(ddl, &self.runner, actions::query_command)?])
    }
}
