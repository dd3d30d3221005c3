//! `file`: a file, directory or symbolic link: that it is there, what is in it, whose it is; with `recurse`, all that is in
//! a directory.
//!
//! - `check`: what follows without looking. `read`, `source`: what is there. `plan`: what has to change.
//! - `change`, `backup`: changing it. `children`: what a directory brings with it.

mod backup;
mod change;
mod check;
mod children;
mod compare;
mod mode;
mod plan;
mod read;
mod schema;
mod source;

use std::path::Path;

use crate::error::EngineError;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::Resource;
use crate::resource_type::{
    AutorequireTarget, CatalogResources, GenerationPhase, ResourceContext, ResourceType,
};
use crate::schema::TypeSchema;
use schema::SCHEMA;

/// Longest file whose content is managed, in bytes: it is held in memory while it is compared and written.
const MAX_CONTENT_BYTES: u64 = 512 * 1024 * 1024;

/// The type.
#[derive(Debug)]
pub struct FileResourceType;

impl ResourceType for FileResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        check::check_file(resource)
    }

    fn read_state(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourceState, EngineError> {
        read::read_state(cx, resource)
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        plan::plan_file(resource, state)
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<(), EngineError> {
        change::apply_change(cx, plan, change)
    }

    /// The nearest directory above it, what it links to, the mounts that it lies in, and whom it belongs to.
    fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Vec<AutorequireTarget> {
        let mut wanted: Vec<AutorequireTarget> = Vec::new();
        let above = || {
            let above = Path::new(&resource.name).ancestors().skip(1);
            above.map(|path| path.to_string_lossy().into_owned())
        };
        wanted.extend(
            above()
                .find(|path| siblings.find_resource("file", path).is_some())
                .map(|path| ("file", path)),
        );
        let target = resource.get_text("target");
        wanted.extend(target.map(|target| ("file", target.to_owned())));
        wanted.extend(
            above()
                .filter(|path| siblings.find_resource("mount", path).is_some())
                .map(|path| ("mount", path)),
        );
        for (type_name, property) in [("user", "owner"), ("group", "group")] {
            let by_name = |who: &&str| !who.bytes().all(|digit| digit.is_ascii_digit());
            let who = resource.get_text(property).filter(by_name);
            wanted.extend(who.map(|who| (type_name, who.to_owned())));
        }
        wanted
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        if children::is_recursive(resource) {
            GenerationPhase::WithTheResource
        } else {
            GenerationPhase::Never
        }
    }

    fn generate_resources(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>, EngineError> {
        if children::is_recursive(resource) {
            children::generate_children(cx, resource, siblings)
        } else {
            Ok(Vec::new())
        }
    }
}
