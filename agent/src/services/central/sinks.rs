//! The sinks of this host. They read what its history has and what its provisioner leaves, so they need no credentials for the broker.

use std::sync::Arc;

use muster_sinks::{EventSinks, HistorySource, SinkEventSources, SinksOptions};

use super::service::{CentralService, ServiceContext, ServiceError, ServiceResult, ServiceTasks};

const START_FAILURE: &str = "cannot start the sinks";

pub(super) struct CentralSinks;

impl CentralService for CentralSinks {
    const NAME: &'static str = "sinks";
    type Options = SinksOptions;

    fn check(options: &SinksOptions) -> ServiceResult<()> {
        options.check().map_err(ServiceError::failed(START_FAILURE))
    }

    async fn start(
        options: SinksOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let history = context.history.get().map(|running| HistorySource {
            index: Arc::clone(&running.index),
            directory: running.directory.clone(),
        });
        let sources = SinkEventSources {
            history,
            has_provisioner: context.config.enables_plugin("provisioner"),
            system: Arc::clone(context.system),
        };
        let sinks = EventSinks::open(&options, &sources);
        let sinks = sinks.map_err(ServiceError::failed(START_FAILURE))?;
        let _ = context.sinks.events.set(sinks.statuses());
        let _ = context.provision_queues.set(sinks.provision_queues());
        Ok(vec![tokio::spawn(sinks.run_until_stopped(context.stop.clone()))])
    }
}
