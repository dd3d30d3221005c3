//! Parses a DDL document: size limit, JSON, keys. `check` validates the values.
//!
//! Inputs and outputs keep the document order, which documentation uses.

use serde::de::Deserialize;
use serde_json::Value;

use crate::check;
use crate::display::DisplayMode;
use crate::error::DdlError;
use crate::ordered_json::{OrderedJson, OrderedMap};
use crate::schema::{ActionClass, ActionExample, AgentDdl, DdlMetadata, ResourceInputs};

/// Largest DDL document, in bytes.
pub const MAX_DDL_BYTES: usize = 256 * 1024;

impl AgentDdl {
    /// Parses and checks a DDL document. Unknown keys are tolerated, see [`AgentDdl::warnings`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DdlError> {
        let (document, warnings) = read_document(bytes)?;
        check::check_document(document, warnings)
    }
}

/// A document and its warnings.
pub(crate) fn read_document<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
) -> Result<(T, Vec<String>), DdlError> {
    if bytes.len() > MAX_DDL_BYTES {
        return Err(DdlError::TooLarge(bytes.len()));
    }
    let mut warnings = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let document = serde_ignored::deserialize(&mut json, |path| {
        warnings.push(format!("unknown key `{path}` is ignored"));
    })
    .map_err(DdlError::Json)?;
    json.end().map_err(DdlError::Json)?;
    Ok((document, warnings))
}

#[derive(serde::Deserialize)]
pub(crate) struct AgentDdlDocument {
    /// The name of the document in the output of `rpc plugin doc -j`, which is a DDL, too.
    #[serde(rename = "schema")]
    _document: Option<String>,
    #[serde(rename = "$schema")]
    pub(crate) schema: Option<String>,
    pub(crate) metadata: DdlMetadata,
    pub(crate) default_action: Option<String>,
    #[serde(default)]
    pub(crate) actions: Vec<DocumentAction>,
}

#[derive(serde::Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate key of the document")]
pub(crate) struct DocumentAction {
    pub(crate) action: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) display: DisplayMode,
    #[serde(default)]
    pub(crate) input: OrderedMap<DocumentInput>,
    #[serde(default)]
    pub(crate) output: OrderedMap<DocumentOutput>,
    #[serde(default)]
    pub(crate) aggregate: Vec<DocumentAggregate>,
    #[serde(default)]
    pub(crate) read_only: bool,
    #[serde(default)]
    pub(crate) idempotent: bool,
    #[serde(default)]
    pub(crate) streams: bool,
    pub(crate) class: Option<ActionClass>,
    #[serde(default)]
    pub(crate) dangerous: bool,
    pub(crate) timeout: Option<u64>,
    #[serde(default)]
    pub(crate) additional_input: bool,
    pub(crate) implemented_by: Option<String>,
    pub(crate) resource: Option<ResourceInputs>,
    #[serde(default)]
    pub(crate) sensitive_inputs: Vec<String>,
    #[serde(default)]
    pub(crate) examples: Vec<ActionExample>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct DocumentInput {
    pub(crate) prompt: String,
    pub(crate) description: String,
    #[serde(rename = "type")]
    pub(crate) value_type: Option<String>,
    pub(crate) default: Option<Value>,
    pub(crate) optional: bool,
    pub(crate) required_unless: Option<String>,
    pub(crate) validation: Option<String>,
    pub(crate) maxlength: Option<u64>,
    #[serde(alias = "enum")]
    pub(crate) list: Option<Vec<String>>,
    pub(crate) schema: Option<OrderedJson>,
    pub(crate) sensitive: bool,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct DocumentOutput {
    pub(crate) description: String,
    pub(crate) display_as: Option<String>,
    #[serde(rename = "type")]
    pub(crate) value_type: Option<String>,
    pub(crate) schema: Option<OrderedJson>,
    pub(crate) default: Option<Value>,
    pub(crate) sensitive: bool,
}

#[derive(serde::Deserialize)]
pub(crate) struct DocumentAggregate {
    pub(crate) function: String,
    #[serde(default)]
    pub(crate) args: Vec<Value>,
}
