//! `filebucket`: a backup location for files, referenced by name in `backup` of a `file`.
//!
//! Every bucket is a local directory. A bucket that Puppet keeps on a server (`path => false`) uses the shared default
//! directory: backups are kept, though not centrally.

use crate::error::Result;
use crate::munge::normalise_path;
use crate::resource::Resource;
use crate::resource_type::{BoundResource, CatalogResources, GenerationPhase, ResourceType};
use crate::schema::AttributeKind::{Int, Text};
use crate::schema::{TypeSchema, parameter};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "filebucket",
    doc: "A directory that stores the previous contents of changed files.",
    namevar: "name",
    attributes: &[
        parameter("name", Text, "The name, as used in `backup` of a file."),
        parameter("path", Text, "The directory; by default, and with `false`, that of the daemon."),
        parameter(
            "server",
            Text,
            "Accepted for compatibility with Puppet; contents stay on the node.",
        ),
        parameter(
            "port",
            Int,
            "Accepted for compatibility with Puppet; contents stay on the node.",
        ),
    ],
};

#[derive(Debug)]
pub struct FilebucketResourceType;

impl ResourceType for FilebucketResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        resource.check_text("path", "`false` or an absolute path without `..`", |path| {
            path == "false" || normalise_path(path).is_some()
        })?;
        Ok(resource)
    }

    fn generation_phase(&self, _: &Resource) -> GenerationPhase {
        GenerationPhase::BeforeTheRun
    }

    /// Generates nothing; only registers the bucket.
    fn generate_resources(
        &self,
        resource: &BoundResource<'_>,
        _: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        resource.cx.cache.buckets.declare_bucket(&resource.name, bucket_path(resource));
        Ok(Vec::new())
    }
}

fn bucket_path(resource: &Resource) -> Option<&str> {
    resource.get_text("path").filter(|path| *path != "false")
}
