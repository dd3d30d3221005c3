//! Central services on this host besides the node. Each has its own credentials and connection, because a service may send requests, and a node may
//! not.
//!
//! A new one is a file here that implements [`CentralService`], and a line in the list at the end.

mod compiler;
mod directory;
mod gateway;
mod history;
mod provisioner;
mod puppetdb;
mod scheduler;
mod service;
mod sinks;

use std::time::Duration;

use muster_api::PluginResult;
use muster_node::config::{Config, PluginSections, parse_section};

pub(crate) use service::{ServiceContext, ServiceError, ServiceTasks};

use service::{CentralService, ServiceResult};

/// How long services may take to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until the services have stopped, after their stop was requested.
pub(crate) async fn wait_stopped(services: ServiceTasks) {
    for service in services {
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, service).await.is_err() {
            tracing::warn!("a service did not stop in time");
        }
    }
}

/// The options of a service; `None` if it is off.
fn enabled_options<S: CentralService>(config: &Config) -> PluginResult<Option<S::Options>> {
    let options = parse_section(S::NAME, &config.plugins)?;
    Ok(config.enables_plugin(S::NAME).then_some(options))
}

macro_rules! list_services {
    ($($service:ty),* $(,)?) => {
        /// Checks the sections `[plugins.NAME]` of all services.
        pub(crate) fn check_sections(sections: &PluginSections) -> PluginResult<()> {
            $(parse_section::<<$service as CentralService>::Options>(<$service>::NAME, sections)?;)*
            Ok(())
        }

        /// Loads everything that is read-only, to check that the configured services can be started.
        pub(crate) fn check_services(config: &Config) -> ServiceResult<()> {
            $(if let Some(options) = enabled_options::<$service>(config)? {
                <$service>::check(&options)?;
            })*
            Ok(())
        }

        pub(crate) async fn start_services(
            context: ServiceContext<'_>,
        ) -> ServiceResult<ServiceTasks> {
            let mut tasks = ServiceTasks::new();
            $(if let Some(options) = enabled_options::<$service>(context.config)? {
                tasks.extend(<$service>::start(options, context).await?);
            })*
            puppetdb::mount_pages(context, &mut tasks);
            Ok(tasks)
        }
    };
}

// They are checked and started in this order: the scheduler, the compiler and the history use the index of the directory, the sink for PuppetDB uses all three, sinks the history, and the provisioner the sinks.
list_services!(
    directory::CentralDirectory,
    scheduler::CentralScheduler,
    compiler::CentralCompiler,
    history::CentralHistory,
    puppetdb::CentralPuppetdb,
    gateway::CentralGateway,
    sinks::CentralSinks,
    provisioner::CentralProvisioner,
);
