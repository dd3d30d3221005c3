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
use crate::plan::{Change, Plan, State};
use crate::resource::Resource;
use crate::resource_type::{Cx, Generates, ResourceType, Siblings, Wanted};
use crate::schema::Schema;
use schema::SCHEMA;

/// Longest file whose content is managed, in bytes: it is held in memory while it is compared and written.
const LIMIT: u64 = 512 * 1024 * 1024;

/// The type.
#[derive(Debug)]
pub struct File;

impl ResourceType for File {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        check::check(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        read::read(cx, resource)
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        plan::plan(resource, state)
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        change::apply(cx, plan, change)
    }

    /// The nearest directory above it, what it links to, the mounts that it lies in, and whom it belongs to.
    fn autorequires(&self, resource: &Resource, siblings: &dyn Siblings) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = Vec::new();
        let above = || {
            let above = Path::new(&resource.name).ancestors().skip(1);
            above.map(|path| path.to_string_lossy().into_owned())
        };
        wanted.extend(
            above()
                .find(|path| siblings.find("file", path).is_some())
                .map(|path| ("file", path)),
        );
        let target = resource.text("target");
        wanted.extend(target.map(|target| ("file", target.to_owned())));
        wanted.extend(
            above()
                .filter(|path| siblings.find("mount", path).is_some())
                .map(|path| ("mount", path)),
        );
        for (type_name, property) in [("user", "owner"), ("group", "group")] {
            let by_name = |who: &&str| !who.bytes().all(|digit| digit.is_ascii_digit());
            let who = resource.text(property).filter(by_name);
            wanted.extend(who.map(|who| (type_name, who.to_owned())));
        }
        wanted
    }

    fn generates(&self, resource: &Resource) -> Generates {
        if children::recurses(resource) {
            Generates::WithTheResource
        } else {
            Generates::Never
        }
    }

    fn generate(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        siblings: &dyn Siblings,
    ) -> Result<Vec<Resource>, EngineError> {
        if children::recurses(resource) {
            children::generate(cx, resource, siblings)
        } else {
            Ok(Vec::new())
        }
    }
}
