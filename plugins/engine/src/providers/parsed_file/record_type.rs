//! A resource type whose resources are the records of one file.

use super::{ParsedFile, RecordFormat};
use crate::error::{DescribeOperation as _, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::{Resource, ResourceValues};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
use crate::schema::{AttributeKind, TypeSchema};

/// A type with one record per resource, in the file that the property `target` names.
#[derive(Debug)]
pub struct RecordResourceType {
    pub schema: &'static TypeSchema,
    pub format: &'static dyn RecordFormat,
    /// The file of resources without `target`.
    pub default_path: &'static str,
    /// The operation in the error of a failed listing.
    pub listing: &'static str,
    /// Messages join lists with this delimiter, as the file does.
    pub list_delimiter: Option<&'static str>,
    /// Validates a resource; see [`ResourceType::check`].
    pub check: fn(Resource) -> Result<Resource>,
}

impl RecordResourceType {
    fn target_file(&self, resource: &Resource) -> ParsedFile {
        let path = resource.get_text("target").unwrap_or(self.default_path);
        ParsedFile::new(self.schema, self.format, path)
    }
}

impl ResourceType for RecordResourceType {
    fn schema(&self) -> &'static TypeSchema {
        self.schema
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        (self.check)(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        self.target_file(resource).read_state(resource)
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut plan = ResourcePlan::compare(self.schema, resource, state);
        for change in &mut plan.changes {
            let attribute = self.schema.find_attribute(&change.property);
            let is_list = attribute.is_some_and(|attribute| attribute.kind == AttributeKind::List);
            if let Some(delimiter) = self.list_delimiter.filter(|_| is_list) {
                change.join_lists(delimiter);
            }
        }
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        self.target_file(&plan.resource).apply_plan(cx, plan)
    }

    /// The file that contains the record.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        self.target_file(resource).autorequires()
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(self.schema, "*")?;
        self.target_file(&all).list_instances(cx.system).during(&all, self.listing)
    }
}
