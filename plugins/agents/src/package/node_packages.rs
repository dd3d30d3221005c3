//! The operations of the actions on the machine's packages. Every call blocks.

use std::sync::Arc;

use muster_api::BlockingContext;
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_contract::package::PackageChangeOutput;
use muster_engine::plan::ResourceState;
use muster_engine::providers::package::apt::AptPackageProvider;
use muster_engine::providers::package::{OutdatedPackage, PackageProvider as _};
use muster_engine::resource::{Resource, ResourceValue};
use muster_engine::{EngineError, ResourceContext, ResourceEngine};
use serde_json::Map;

/// The package resources of the machine.
pub(crate) struct NodePackages {
    system: Arc<dyn System>,
    engine: ResourceEngine,
    cancel: CancelFlag,
}

impl NodePackages {
    pub(crate) fn new(cx: &BlockingContext) -> Self {
        Self::for_system(Arc::clone(&cx.system), cx.cancel_flag.clone())
    }

    pub(crate) fn for_system(system: Arc<dyn System>, cancel: CancelFlag) -> Self {
        let engine = ResourceEngine::new(Arc::clone(&system));
        Self { system, engine, cancel }
    }

    /// The state of one package.
    pub(crate) fn query_package(&self, name: &str) -> Result<ResourceState, EngineError> {
        self.engine.check_resource("package", name, &Map::new())?;
        self.engine.find_state("package", name)
    }

    /// Sets the state of a package: a version, or one of the engine's `ensure` values. With `noop`, only reports what would change.
    pub(crate) fn ensure_state(
        &self,
        name: &str,
        ensure: &str,
        noop: bool,
    ) -> Result<PackageChangeOutput, EngineError> {
        let resource = self.build_resource(name, ensure)?;
        let previous = property_text(&self.query_package(name)?, "ensure");
        let outcome = self.engine.apply_resource(&resource, self.cancel.clone(), noop);
        let changed = outcome.has_changed() || outcome.would_change();
        let planned = outcome.events.iter().find(|event| noop && event.property == "ensure");
        let planned = planned.and_then(|event| event.desired_value.as_text()).map(str::to_owned);
        match (outcome.error, planned) {
            (Some(error), _) => Err(error),
            (None, planned) => Ok(PackageChangeOutput {
                ensure: match planned {
                    Some(ensure) => ensure,
                    None => property_text(&self.query_package(name)?, "ensure"),
                },
                name: name.to_owned(),
                previous,
                changed,
            }),
        }
    }

    /// Updates a package to the newest version if it is installed. Never installs one, because a fleet-wide update must not add packages.
    pub(crate) fn update_package(
        &self,
        name: &str,
        noop: bool,
    ) -> Result<PackageChangeOutput, EngineError> {
        let resource = self.build_resource(name, "latest")?;
        if matches!(
            property_text(&self.query_package(name)?, "ensure").as_str(),
            "absent" | "purged"
        ) {
            let problem = "is not installed, so there is nothing to update; use `install`";
            return Err(EngineError::failed(&resource, problem));
        }
        self.ensure_state(name, "latest", noop)
    }

    /// All packages with a newer version, and the tool that reported them.
    pub(crate) fn list_outdated(
        &self,
    ) -> Result<(&'static str, Vec<OutdatedPackage>), EngineError> {
        Ok((
            "apt",
            AptPackageProvider.list_outdated(&self.engine_context().bind(&self.all_packages()?))?,
        ))
    }

    /// Updates the package lists. Returns the tool's output.
    pub(crate) fn refresh_lists(&self) -> Result<String, EngineError> {
        AptPackageProvider.refresh_lists(&self.engine_context().bind(&self.all_packages()?))
    }

    fn build_resource(&self, name: &str, ensure: &str) -> Result<Resource, EngineError> {
        let properties = Map::from_iter([("ensure".to_owned(), ensure.into())]);
        self.engine.check_resource("package", name, &properties)
    }

    /// Represents all packages in messages.
    fn all_packages(&self) -> Result<Resource, EngineError> {
        self.engine.empty_resource("package", "*")
    }

    fn engine_context(&self) -> ResourceContext<'_> {
        ResourceContext::new(&*self.system, self.cancel.clone())
    }
}

/// A property as text.
pub(crate) fn property_text(state: &ResourceState, property: &str) -> String {
    let text = state.get(property).and_then(ResourceValue::as_text);
    text.unwrap_or_default().to_owned()
}
