//! An instance of the history. Without a directory on this host it has an index of nodes of its own.

use std::sync::Arc;

use muster_history::actions::{HistoryActions, build_agent};
use muster_history::index::HistoryIndex;
use muster_history::options::HistoryOptions;
use muster_history::service::HistoryService;
use muster_node::trust::credentials;
use muster_wire::token::ServiceRight;

use super::directory::{share_index, trust_source};
use super::service::{
    CentralService, ServiceConnection, ServiceContext, ServiceError, ServiceResult, ServiceTasks,
};
use crate::services::metrics::history_metrics::RunningHistory;

pub(super) struct CentralHistory;

impl CentralService for CentralHistory {
    const NAME: &'static str = "history";
    type Options = HistoryOptions;

    fn check(options: &HistoryOptions) -> ServiceResult<()> {
        credentials::read_service_signer(&options.credentials, ServiceRight::History)?;
        Ok(())
    }

    async fn start(
        options: HistoryOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let connection = context.connect(&options.credentials, ServiceRight::History).await?;
        let mut tasks = ServiceTasks::new();
        let directory = share_index(&connection, context, &mut tasks);
        let index = HistoryIndex::open(&options.directory());
        let index = Arc::new(index.map_err(ServiceError::failed("cannot start the history"))?);
        let (bus, source) = (connection.bus.clone(), trust_source(context));
        let (own, nodes) = (Arc::clone(&index), directory.clone());
        let times = (options.keep(), options.silent());
        let service = HistoryService::new(bus, own, source, nodes, times);
        let progress = service.progress();
        let running = RunningHistory {
            index: Arc::clone(&index),
            progress: Arc::clone(&progress),
            directory: directory.clone(),
        };
        let _ = context.history.set(running);
        let agent = build_agent(&HistoryActions { index, directory, progress })?;
        tasks.push(tokio::spawn(service.run_until_stopped(context.stop.clone())));
        // The service closes the connection.
        let lent = ServiceConnection { bus: connection.bus.lend_connection(), ..connection };
        context.answer_requests(agent, lent, &mut tasks)?;
        Ok(tasks)
    }
}
