//! The sink for a `PuppetDB`. It reads what other services of this host have, so it needs no credentials for the broker.

use std::sync::Arc;

use muster_puppetdb::sink::{PuppetdbOptions, PuppetdbSink, SinkSources};

use super::service::{CentralService, ServiceContext, ServiceError, ServiceResult, ServiceTasks};

const START_FAILURE: &str = "cannot start the sink for PuppetDB";

pub(super) struct CentralPuppetdb;

impl CentralService for CentralPuppetdb {
    const NAME: &'static str = "puppetdb";
    type Options = PuppetdbOptions;

    fn check(options: &PuppetdbOptions) -> ServiceResult<()> {
        options.open_client().map(drop).map_err(ServiceError::failed(START_FAILURE))
    }

    async fn start(
        options: PuppetdbOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let sources = SinkSources {
            directory: context.directory.get().map(|running| running.handle.clone()),
            catalogs: context.catalogs.get().cloned(),
            history: context.history.get().map(|running| Arc::clone(&running.index)),
        };
        let sink = PuppetdbSink::open(&options, sources);
        let sink = sink.map_err(ServiceError::failed(START_FAILURE))?;
        let _ = context.sinks.puppetdb.set(sink.counts());
        Ok(vec![tokio::spawn(sink.run_until_stopped(context.stop.clone()))])
    }
}
