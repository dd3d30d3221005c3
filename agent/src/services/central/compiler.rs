//! A host that compiles catalogs ahead. Without a directory on this host it has an index of its own.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use muster_bus::content::ContentStore;
use muster_catalogs::actions::{CompilerActions, build_agent};
use muster_catalogs::catalog::SecretKey;
use muster_catalogs::code::CodeStore;
use muster_catalogs::handle::{CompilerContext, CompilerHandle};
use muster_catalogs::options::CompilerServiceOptions;
use muster_catalogs::pool::{CompilerPool, CompilerSettings, prepare_directory};
use muster_catalogs::releases::ReleaseStore;
use muster_catalogs::service::CompilerService;
use muster_catalogs::worker::CompileWorker;
use muster_filter::FactPatterns;
use muster_host::external::{SandboxHelper, find_account};
use muster_node::trust::credentials;
use muster_puppetdb::sink::CatalogSource;
use muster_wire::stores::CONTENT_BUCKET;
use muster_wire::token::ServiceRight;

use super::directory::{share_index, trust_source};
use super::service::{
    CentralService, ServiceConnection, ServiceContext, ServiceError, ServiceResult, ServiceTasks,
};

const START_FAILURE: &str = "cannot start the compiler of catalogs";
/// In the daemon's state, if the options name no key.
const SECRET_KEY_FILE: &str = "catalogs.key";

pub(super) struct CentralCompiler;

/// Nodes would refuse the catalogs.
#[derive(Debug, thiserror::Error)]
#[error("the credentials in {} are not for environment {name}; create others with `rpc org add service ... --environment {name} --renew`", path.display())]
struct EnvironmentRightError {
    path: PathBuf,
    name: String,
}

impl CentralService for CentralCompiler {
    const NAME: &'static str = "compiler";
    type Options = CompilerServiceOptions;

    fn check(options: &CompilerServiceOptions) -> ServiceResult<()> {
        let signer = credentials::read_service_signer(&options.credentials, ServiceRight::Compile)?;
        for environment in options.environments().map_err(failed)? {
            let (tags, name) = (&signer.claims().nats.tags, environment.name);
            if !ServiceRight::is_for_environment(tags, &name) {
                let path = options.credentials.clone();
                return Err(failed(EnvironmentRightError { path, name }));
            }
        }
        if let Some(path) = &options.secret_key {
            SecretKey::read(path).map_err(failed)?;
        }
        find_account(options.user()).map_err(failed)?;
        Ok(())
    }

    async fn start(
        options: CompilerServiceOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let connection = context.connect(&options.credentials, ServiceRight::Compile).await?;
        let (config, mut tasks) = (context.config, ServiceTasks::new());
        let handle = CompilerHandle::new(
            CompilerContext {
                directory: share_index(&connection, context, &mut tasks),
                volatile: FactPatterns::new(&config.registration.volatile_facts),
                environments: options.environments().map_err(failed)?,
                external_max_age: options.external_max_age(),
                keep_releases: options.keep_releases(),
                lease: options.lease(),
                source: trust_source(context),
            },
            &connection.bus,
        );
        let directory = options.directory();
        let user = find_account(options.user()).map_err(failed)?;
        prepare_directory(&directory, user.as_ref()).map_err(failed)?;
        let code = CodeStore::new(Arc::clone(context.system), directory.clone());
        let settings = CompilerSettings {
            ruby: options.ruby(),
            user,
            limits: options.limits(),
            state: directory.join("compilers"),
            helper: SandboxHelper::current_exe().map_err(failed)?,
            programs: options.programs(),
        };
        let secret_key = match &options.secret_key {
            Some(path) => SecretKey::read(path),
            None => SecretKey::read_or_create(&config.paths.state.join(SECRET_KEY_FILE)),
        };
        let worker = Arc::new(CompileWorker {
            handle: handle.clone(),
            pool: CompilerPool::new(settings),
            signer: connection.signer.clone(),
            secret_key: secret_key.map_err(failed)?,
            content: ContentStore::new(connection.bus.bucket(CONTENT_BUCKET.name)),
        });
        let releases = ReleaseStore::new(handle.catalogs().clone(), worker.content.clone());
        let source = CatalogSource { handle: handle.clone(), releases: releases.clone() };
        let _ = context.catalogs.set(source);
        let (code_store, checker) = (code.clone(), Arc::clone(&worker));
        let agent = build_agent(&CompilerActions { handle, code: code_store, releases, checker })?;
        let service =
            CompilerService::new(connection.bus.clone(), code, worker, options.parallel());
        tasks.push(tokio::spawn(service.run_until_stopped(context.stop.clone())));
        // The service closes the connection.
        let lent = ServiceConnection { bus: connection.bus.lend_connection(), ..connection };
        context.answer_requests(agent, lent, &mut tasks)?;
        Ok(tasks)
    }
}

fn failed(source: impl Error + Send + Sync + 'static) -> ServiceError {
    ServiceError::failed(START_FAILURE)(source)
}
