//! An instance of the scheduler. Without a directory on this host it has an index of its own.

use muster_api::base::unix_millis_now;
use muster_node::trust::credentials;
use muster_scheduler::{
    SchedulerContext, SchedulerHandle, SchedulerOptions, SchedulerService, build_agent,
};
use muster_wire::token::ServiceRight;

use super::directory::share_index;
use super::service::{
    CentralService, ServiceConnection, ServiceContext, ServiceResult, ServiceTasks,
};

pub(super) struct CentralScheduler;

impl CentralService for CentralScheduler {
    const NAME: &'static str = "schedule";
    type Options = SchedulerOptions;

    fn check(options: &SchedulerOptions) -> ServiceResult<()> {
        credentials::read_service_signer(&options.credentials, ServiceRight::Schedule)?;
        Ok(())
    }

    async fn start(
        options: SchedulerOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let connection = context.connect(&options.credentials, ServiceRight::Schedule).await?;
        let (config, mut tasks) = (context.config, ServiceTasks::new());
        let directory = share_index(&connection, context, &mut tasks);
        let trust = context.core.trust.account.share();
        let handle = SchedulerHandle::new(SchedulerContext {
            collectives: config.collectives.clone(),
            directory,
            trust: Box::new(move || trust.get()),
            clock: unix_millis_now,
        });
        let agent = build_agent(&handle)?;
        let clients = config.collectives.iter();
        let clients = clients.map(|name| (name.clone(), connection.client(name.clone()))).collect();
        let (host, own) = (config.identity.clone(), connection.clone());
        let service = SchedulerService::new(host, handle, own.bus, own.signer, clients, &options);
        tasks.push(tokio::spawn(service.run_until_stopped(context.stop.clone())));
        // The service closes the connection, after a leader has given up its lease.
        let lent = ServiceConnection { bus: connection.bus.lend_connection(), ..connection };
        context.answer_requests(agent, lent, &mut tasks)?;
        Ok(tasks)
    }
}
