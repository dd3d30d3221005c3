//! An instance of the directory: the index, the agent that answers from it, its HTTP API, and reports to nodes that wait for others.

use muster_api::base::unix_millis_now;
use muster_directory::{
    BarrierService, DirectoryContext, DirectoryHandle, DirectoryHttp, DirectoryOptions,
    DirectoryService, build_agent,
};
use muster_node::trust::credentials;
use muster_wire::token::ServiceRight;
use tokio::task::JoinHandle;

use super::service::{
    CentralService, ServiceConnection, ServiceContext, ServiceError, ServiceResult, ServiceTasks,
};
use crate::services::metrics::directory_metrics::RunningDirectory;

pub(super) struct CentralDirectory;

impl CentralService for CentralDirectory {
    const NAME: &'static str = "directory";
    type Options = DirectoryOptions;

    fn check(options: &DirectoryOptions) -> ServiceResult<()> {
        credentials::read_service_signer(&options.credentials, ServiceRight::Directory)?;
        load_http(options).map(drop)
    }

    async fn start(
        options: DirectoryOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let server = load_http(&options)?;
        let connection = context.connect(&options.credentials, ServiceRight::Directory).await?;
        let handle = DirectoryHandle::with_limits(options.grace(), options.memory_mib);
        let (http, mount, stop) = (server.metrics(), server.mount(), context.stop);
        let mut tasks = vec![
            tokio::spawn(server.run_until_stopped(handle.clone(), stop.clone())),
            follow_nodes(&handle, &connection, context),
        ];
        let agent = build_agent(&handle)?;
        let requests = context.answer_requests(agent, connection.clone(), &mut tasks)?;
        let running = RunningDirectory { handle: handle.clone(), requests, http, mount };
        let _ = context.directory.set(running);
        if options.conditions {
            let create_client = Box::new(move |collective| connection.client(collective));
            let barriers = BarrierService::new(handle, create_client);
            tasks.push(tokio::spawn(barriers.run_until_stopped(stop.clone())));
        }
        Ok(tasks)
    }
}

fn load_http(options: &DirectoryOptions) -> ServiceResult<DirectoryHttp> {
    let failure = "cannot serve the directory over HTTP";
    DirectoryHttp::load(&options.http).map_err(ServiceError::failed(failure))
}

/// The index of the directory on this host, or one that this service keeps with its own connection.
pub(super) fn share_index(
    connection: &ServiceConnection,
    context: ServiceContext<'_>,
    tasks: &mut ServiceTasks,
) -> DirectoryHandle {
    let shared = context.directory.get().map(|running| running.handle.clone());
    shared.unwrap_or_else(|| {
        let handle = DirectoryHandle::default();
        tasks.push(follow_nodes(&handle, connection, context));
        handle
    })
}

/// Keeps an index of nodes current.
fn follow_nodes(
    handle: &DirectoryHandle,
    connection: &ServiceConnection,
    context: ServiceContext<'_>,
) -> JoinHandle<()> {
    let source = trust_source(context);
    let (bus, signer) = (connection.bus.clone(), connection.signer.clone());
    let service = DirectoryService::new(handle.clone(), bus, signer, source);
    tokio::spawn(service.run_until_stopped(context.stop.clone()))
}

/// The account token that the daemon has, and the time.
pub(super) fn trust_source(context: ServiceContext<'_>) -> DirectoryContext {
    let trust = context.core.trust.account.share();
    DirectoryContext { trust: Box::new(move || trust.get()), clock: unix_millis_now }
}
