//! `stage`: a named phase of the run. The order of stages is defined by the catalog.

use crate::resource_type::ResourceType;
use crate::schema::AttributeKind::Text;
use crate::schema::{TypeSchema, parameter};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "stage",
    doc: "A stage of the run, to which classes are assigned.",
    namevar: "name",
    attributes: &[parameter("name", Text, "The name of the stage, as used by classes.")],
};

#[derive(Debug)]
pub struct StageResourceType;

impl ResourceType for StageResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }
}
