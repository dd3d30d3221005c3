//! `file`: existence, content, owner and mode of a file, directory or symbolic link; with `recurse`, also the contents of
//! a directory.
//!
//! - `check`: validation without reading the machine. `read`, `source`, `static_source`: current state. `plan`: required changes.
//! - `change`, `backup`: applying changes. `children`: resources generated for a directory.

mod backup;
mod change;
mod check;
mod children;
mod compare;
mod diff;
pub(crate) use diff::{LabelledContent, diff_of_contents};
mod mode;
mod plan;
mod read;
mod schema;
mod source;
mod static_source;

use std::path::Path;

use crate::error::Result;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::Resource;
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, GenerationPhase, ResourceContext, ResourceType,
};
use crate::schema::TypeSchema;
use schema::SCHEMA;

#[derive(Debug)]
pub struct FileResourceType;

impl ResourceType for FileResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        check::check_file(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        read::read_state(resource)
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        plan::plan_file(resource, state)
    }

    fn content_diff(&self, cx: &ResourceContext<'_>, plan: &ResourcePlan) -> Option<String> {
        diff::content_diff(cx, plan)
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        change::apply_change(cx, plan, change)
    }

    /// The nearest ancestor directory, the link target, the mounts that contain it, and its owner and group.
    fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Vec<AutoRequire> {
        let ancestors = |type_name: &'static str| {
            let paths = Path::new(&resource.name).ancestors().skip(1);
            paths
                .map(move |path| (type_name, path.to_string_lossy().into_owned()))
                .filter(|(_, path)| siblings.find_resource(type_name, path).is_some())
        };
        let target = resource.get_text("target").map(|target| ("file", target.to_owned()));
        let mut targets: Vec<AutoRequire> =
            ancestors("file").take(1).chain(target).chain(ancestors("mount")).collect();
        for (type_name, property) in [("user", "owner"), ("group", "group")] {
            let is_name = |account: &&str| !account.bytes().all(|digit| digit.is_ascii_digit());
            let account = resource.get_text(property).filter(is_name);
            targets.extend(account.map(|account| (type_name, account.to_owned())));
        }
        targets
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        GenerationPhase::WithTheResource.only_if(children::is_recursive(resource))
    }

    fn generate_resources(
        &self,
        resource: &BoundResource<'_>,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        children::generate_children(resource, siblings)
    }
}
