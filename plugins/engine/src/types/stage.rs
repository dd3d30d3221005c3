//! `stage`: a name for a part of the run. What comes before what is the catalog's affair.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::Resource;
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "stage",
    doc: "A part of the run, to which classes are assigned.",
    namevar: "name",
    attributes: &[Attribute::parameter(
        "name",
        Kind::Text,
        "What classes call it.",
    )],
};

/// The type.
#[derive(Debug)]
pub struct Stage;

impl ResourceType for Stage {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, _: &Cx<'_>, _: &Plan, _: &Change) -> Result<(), EngineError> {
        Ok(())
    }
}
