//! The sink for a `PuppetDB`, and the pages that answer in its place. They read what other services of this host have, so they need no credentials for the broker.

use std::sync::Arc;

use muster_puppetdb::query::{KnownCatalogs, PuppetdbPages, QuerySources};
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

/// Mounts the pages into the HTTP server of the directory, if they are enabled. They read what started before.
pub(super) fn mount_pages(context: ServiceContext<'_>, tasks: &mut ServiceTasks) {
    let Some(running) = context.directory.get() else { return };
    let Some(mount) = &running.mount else { return };
    let catalogs = context.catalogs.get().cloned().map(|source| {
        let catalogs = Arc::new(KnownCatalogs::new(source));
        let (followed, stop) = (Arc::clone(&catalogs), context.stop.clone());
        tasks.push(tokio::spawn(async move { followed.run_until_stopped(stop).await }));
        catalogs
    });
    mount.set(Arc::new(PuppetdbPages::new(QuerySources {
        directory: running.handle.clone(),
        compiler: context.catalogs.get().map(|source| source.handle.clone()),
        catalogs,
        history: context.history.get().map(|running| Arc::clone(&running.index)),
    })));
}
