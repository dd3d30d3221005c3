//! `rpcd --check`: reads everything that the daemon reads, and says what it would refuse, deny or leave out. Changes nothing, and does not disturb a
//! running daemon.

use std::path::Path;

use muster_api::base::error_chain;
use muster_api::system::real::RealSystem;
use muster_host::AgentRegistry;
use muster_host::external::{AgentFileProblem, ScanMode};
use muster_node::config::Config;
use muster_node::core::audit::AuditLog;
use muster_node::machine::classes::ClassStore;
use muster_node::machine::facts::{FactMachines, FactSources, FactStore};
use muster_node::trust::{credentials, enrolment, own_tokens, policy};

use crate::daemon::assemble::AssembleError;
use crate::services::agents::BackgroundPlugins;
use crate::services::{agents, central};

/// What a check found in a configuration from which a daemon can be built.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Errors of policies, which deny the requests that depend on them.
    pub errors: Vec<String>,
    /// Sources of facts, classes, external agents and schedules of checks that are left out.
    pub warnings: Vec<String>,
}

/// Checks that a daemon can be built from the configuration, and reads what it reads while it runs. Runs the executables in `facts.d`, as the daemon does;
/// asks neither Facter nor the cloud's metadata service.
pub async fn check_config(
    config: &Config,
    config_file: &Path,
) -> Result<CheckReport, AssembleError> {
    let (plugins, registry) = check_setup(config)?;
    let errors = policy::load_configured_policies(config).1;
    let (host, node) = (RealSystem::new("/".into()), RealSystem::new(config.paths.root.clone()));
    let classes = ClassStore::new(config.paths.classes.clone());
    let mut warnings: Vec<String> =
        classes.reload().err().iter().map(|error| error_chain(error)).collect();
    let sources = FactSources::new(config.identity.clone(), config.paths.facts_d.clone());
    let problems = FactStore::new(sources).reload(FactMachines { node: &node, host: &host });
    warnings.extend(problems.iter().map(|problem| error_chain(problem)));
    let mut directory = agents::open_agent_directory(config, config_file, &registry)?;
    directory.scan(ScanMode::Complete).await;
    let of_agent = |found: AgentFileProblem| format!("{}: {}", found.path.display(), found.problem);
    warnings.extend(directory.problems().into_iter().map(of_agent));
    warnings.extend(plugins.checks.iter().flat_map(|checks| checks.file_problems(&node)));
    Ok(CheckReport { errors, warnings })
}

/// Checks that a daemon can be built: configuration, credentials, authorities, account token, plugins, services, audit log.
pub(crate) fn check_setup(
    config: &Config,
) -> Result<(BackgroundPlugins, AgentRegistry), AssembleError> {
    let enrolled;
    let config = if let Some(bootstrap) = enrolment::bootstrap_path(config) {
        enrolment::check_bootstrap(config, bootstrap)?;
        config
    } else {
        enrolled = enrolment::effective_config(config)?;
        let options =
            credentials::connect_options(&enrolled, &own_tokens::load_signer(&enrolled)?)?;
        options.check().map_err(AssembleError::Connection)?;
        own_tokens::load_trust(&enrolled)?;
        central::check_services(&enrolled)?;
        &enrolled
    };
    let built = agents::check_plugins(config)?;
    AuditLog::check(&config.paths.audit, &config.audit)?;
    Ok(built)
}
