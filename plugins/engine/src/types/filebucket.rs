//! `filebucket`: where files keep what they were, under a name that `backup` of a `file` says.
//!
//! Every bucket is a directory of this machine. One that Puppet keeps on a server (`path => false`) shares the directory of
//! all buckets without a path: what a file was is kept, though not centrally.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::Resource;
use crate::resource_type::{Cx, Generates, ResourceType, Siblings};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "filebucket",
    doc: "A directory that keeps what files were before they were changed.",
    namevar: "name",
    attributes: &[
        Attribute::parameter("name", Kind::Text, "What `backup` of a file calls it."),
        Attribute::parameter(
            "path",
            Kind::Text,
            "The directory; the daemon's own, when it is `false` or not given.",
        ),
        Attribute::parameter(
            "server",
            Kind::Text,
            "Accepted for Puppet's sake; contents stay on the machine.",
        ),
        Attribute::parameter(
            "port",
            Kind::Int,
            "Accepted for Puppet's sake; contents stay on the machine.",
        ),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Filebucket;

impl ResourceType for Filebucket {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        let path = path(&resource).filter(|path| crate::munge::path(path).is_none());
        if let Some(path) = path {
            let problem = format!("is `{path}`, must be `false` or an absolute path without `..`");
            return Err(EngineError::invalid(&resource, "path", problem));
        }
        Ok(resource)
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, _: &Cx<'_>, _: &Plan, _: &Change) -> Result<(), EngineError> {
        Ok(())
    }

    fn generates(&self, _: &Resource) -> Generates {
        Generates::BeforeTheRun
    }

    /// Brings nothing; only makes itself known to the files.
    fn generate(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        _: &dyn Siblings,
    ) -> Result<Vec<Resource>, EngineError> {
        cx.memo.buckets.declare(&resource.name, path(resource));
        Ok(Vec::new())
    }
}

fn path(resource: &Resource) -> Option<&str> {
    resource.text("path").filter(|path| *path != "false")
}
