//! The operations of the actions on one service. Every method blocks.

use std::sync::Arc;

use muster_api::BlockingContext;
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_contract::service::{ServiceChangeOutput, ServiceRunState};
use muster_engine::providers::service::choice::choose_provider;
use muster_engine::providers::service::{ServiceOperation, ServiceState as Found};
use muster_engine::resource::Resource;
use muster_engine::{EngineError, ResourceContext, ResourceEngine};
use serde_json::{Map, Value};

/// A service of the machine.
pub(crate) struct NodeService {
    system: Arc<dyn System>,
    engine: ResourceEngine,
    cancel: CancelFlag,
    name: String,
}

impl NodeService {
    pub(crate) fn new(cx: &BlockingContext, name: String) -> Self {
        let system = Arc::clone(&cx.system);
        let engine = ResourceEngine::new(Arc::clone(&system));
        Self { engine, system, cancel: cx.cancel_flag.clone(), name }
    }

    /// Queries the resource of the service.
    pub(crate) fn query_status(&self) -> Result<Found, EngineError> {
        let resource = self.build_resource(None)?;
        let cx = self.engine_context();
        let resource = &cx.bind(&resource);
        choose_provider(resource)?.query_service(resource)
    }

    /// Queries whether the service runs.
    pub(crate) fn query_state(&self) -> Result<ServiceRunState, EngineError> {
        let resource = self.build_resource(None)?;
        let found = self.query_status()?;
        Ok(if found.require_known(&resource)?.running {
            ServiceRunState::Running
        } else {
            ServiceRunState::Stopped
        })
    }

    /// Starts or stops the service unless it is already in that state. With `noop`, only reports whether it is.
    pub(crate) fn ensure_state(
        &self,
        desired: ServiceRunState,
        noop: bool,
    ) -> Result<ServiceChangeOutput, EngineError> {
        self.query_state()?;
        let resource = self.build_resource(Some(desired))?;
        let outcome = self.engine.apply_resource(&resource, self.cancel.clone(), noop);
        let changed = outcome.has_changed() || outcome.would_change();
        match outcome.error {
            Some(error) => Err(error),
            None => Ok(ServiceChangeOutput { status: self.query_state()?, changed }),
        }
    }

    /// Restarts the service in any state. With `noop`, only returns its state.
    pub(crate) fn restart(&self, noop: bool) -> Result<ServiceRunState, EngineError> {
        let state = self.query_state()?;
        if noop {
            return Ok(state);
        }
        let resource = self.build_resource(None)?;
        let cx = self.engine_context();
        let resource = &cx.bind(&resource);
        choose_provider(resource)?.run_operation(resource, ServiceOperation::Restart)?;
        self.query_state()
    }

    fn build_resource(&self, desired: Option<ServiceRunState>) -> Result<Resource, EngineError> {
        let ensure = desired.map(|state| ("ensure".to_owned(), Value::from(ensure_value(state))));
        let properties: Map<String, Value> = ensure.into_iter().collect();
        self.engine.check_resource("service", &self.name, &properties)
    }

    fn engine_context(&self) -> ResourceContext<'_> {
        ResourceContext::new(&*self.system, self.cancel.clone())
    }
}

/// The engine's `ensure` value.
const fn ensure_value(state: ServiceRunState) -> &'static str {
    match state {
        ServiceRunState::Running => "running",
        ServiceRunState::Stopped => "stopped",
    }
}
