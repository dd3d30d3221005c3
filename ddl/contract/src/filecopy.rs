//! The agent `filecopy`: files that are copied to and from a node in parts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of a part that is written, in bytes: as base64, and with its envelope, it fits into a request.
pub const MAX_CHUNK_BYTES: u64 = 512 * 1024;
/// Maximum size of a part that is read, in bytes: as base64 it fits into the reply of a node with the default limits.
pub const MAX_READ_BYTES: u64 = 256 * 1024;
/// Maximum number of ranges of missing parts in a reply; the rest is one range.
pub const MAX_MISSING_RANGES: usize = 256;

/// The start of an absolute path.
const PATH_PATTERN: &str = "^/";
/// Permissions in octal.
const MODE_PATTERN: &str = "^0?[0-7]{3}$";
/// A user or a group, by name or number.
const OWNER_PATTERN: &str = "^([A-Za-z_][A-Za-z0-9_.-]*[$]?|[0-9]+)$";
/// The handle of a copy.
const TRANSFER_PATTERN: &str = "^[0-9a-f]{24}$";

/// Encodes the bytes of a part as text.
pub fn encode_chunk(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Decodes the text of a part; `None` if it is not base64.
pub fn decode_chunk(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// Copies files to and from nodes in parts, for `rpc cp`.
#[derive(Debug, JsonSchema)]
pub struct FilecopyAgent;

impl AgentContract for FilecopyAgent {
    const NAME: &'static str = "filecopy";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<FilecopyBegin>()
            .add::<FilecopyWrite>()
            .add::<FilecopyFinish>()
            .add::<FilecopyAbort>()
            .add::<FilecopyInspect>()
            .add::<FilecopyRead>();
    }
}

/// Prepare a copy to this node, or find that the target is up to date.
#[derive(Debug, JsonSchema)]
pub struct FilecopyBegin;

impl Action for FilecopyBegin {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "begin";
    type Input = FilecopyBeginInput;
    type Output = FilecopyBeginOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .timeout(600)
            .summary("state")
            .examples(include_str!("filecopy/begin.json"))
    }
}

/// Inputs of `begin`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyBeginInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    #[schemars(length(max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Size of each part but the last, in bytes, from 4096 to 524288.
    #[schemars(title = "Part Size")]
    pub chunk_bytes: u64,
    /// Permissions of the target, in octal; default: those of an existing target.
    #[schemars(length(max = 4), regex(pattern = MODE_PATTERN))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Permissions of a new target if mode is absent, in octal; default: 0644.
    #[schemars(length(max = 4), regex(pattern = MODE_PATTERN))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<String>,
    /// Owner of the target, a name or number; default: that of an existing target, or the daemon's user.
    #[schemars(length(max = 32), regex(pattern = OWNER_PATTERN))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Group of the target, a name or number; default: that of an existing target, or the daemon's group.
    #[schemars(length(max = 32), regex(pattern = OWNER_PATTERN))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Outputs of `begin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyBeginOutput {
    /// unchanged; attributes, if only mode, owner or group had to be changed; or ready for the parts.
    pub state: String,
    /// The target, with links resolved.
    pub path: String,
    /// The handle of the copy; empty unless ready.
    #[schemars(title = "Copy")]
    pub transfer: String,
    /// Number of parts that the node does not have yet.
    #[schemars(title = "Missing Parts")]
    pub missing_chunks: u64,
    /// Ranges of the numbers of these parts, first and last.
    pub missing: Vec<(u64, u64)>,
}

/// The states of [`FilecopyBeginOutput`].
pub mod begin_state {
    /// The target has this content and these attributes.
    pub const UNCHANGED: &str = "unchanged";
    /// The target had this content; its attributes were set.
    pub const ATTRIBUTES: &str = "attributes";
    /// The node waits for the parts.
    pub const READY: &str = "ready";
}

/// Write one part of a copy; parts may arrive in any order.
#[derive(Debug, JsonSchema)]
pub struct FilecopyWrite;

impl Action for FilecopyWrite {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "write";
    type Input = FilecopyWriteInput;
    type Output = FilecopyWriteOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .display_failed()
            .examples(include_str!("filecopy/write.json"))
    }
}

/// Inputs of `write`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyWriteInput {
    /// The handle of the copy, from begin.
    #[schemars(title = "Copy", length(max = 24), regex(pattern = TRANSFER_PATTERN))]
    pub transfer: String,
    /// Number of the part, from 0.
    #[schemars(title = "Part")]
    pub index: u64,
    /// The bytes of the part, in base64.
    #[schemars(length(max = 700_000))]
    pub content: String,
}

/// Outputs of `write`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyWriteOutput {
    /// Number of the part.
    #[schemars(title = "Part")]
    pub index: u64,
}

/// Verify the SHA-256 of a copy, set its attributes and put it into the place of the target.
#[derive(Debug, JsonSchema)]
pub struct FilecopyFinish;

impl Action for FilecopyFinish {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "finish";
    type Input = FilecopyTransferInput;
    type Output = FilecopyFinishOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .timeout(600)
            .summary("sha256")
            .examples(include_str!("filecopy/finish.json"))
    }
}

/// Inputs of `finish` and `abort`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyTransferInput {
    /// The handle of the copy, from begin.
    #[schemars(title = "Copy", length(max = 24), regex(pattern = TRANSFER_PATTERN))]
    pub transfer: String,
}

/// Outputs of `finish`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyFinishOutput {
    /// The target, with links resolved.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the target.
    pub sha256: String,
}

/// Remove an unfinished copy.
#[derive(Debug, JsonSchema)]
pub struct FilecopyAbort;

impl Action for FilecopyAbort {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "abort";
    type Input = FilecopyTransferInput;
    type Output = FilecopyAbortOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("removed")
            .examples(include_str!("filecopy/abort.json"))
    }
}

/// Outputs of `abort`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyAbortOutput {
    /// Whether there was such a copy.
    pub removed: bool,
}

/// Show size, permissions and SHA-256 of a file that can be fetched.
#[derive(Debug, JsonSchema)]
pub struct FilecopyInspect;

impl Action for FilecopyInspect {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "inspect";
    type Input = FilecopyInspectInput;
    type Output = FilecopyInspectOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .timeout(600)
            .summary("sha256")
            .examples(include_str!("filecopy/inspect.json"))
    }
}

/// Inputs of `inspect`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyInspectInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
}

/// Outputs of `inspect`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyInspectOutput {
    /// The file, with links resolved.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Permissions, in octal.
    pub mode: String,
    /// Differs after each change of the file.
    pub version: String,
}

/// Read one part of a file that has not changed since inspect.
#[derive(Debug, JsonSchema)]
pub struct FilecopyRead;

impl Action for FilecopyRead {
    type Agent = FilecopyAgent;
    const NAME: &'static str = "read";
    type Input = FilecopyReadInput;
    type Output = FilecopyReadOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().display_failed().examples(include_str!("filecopy/read.json"))
    }
}

/// Inputs of `read`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyReadInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
    /// The version from inspect.
    #[schemars(length(max = 200))]
    pub version: String,
    /// Start in bytes.
    pub offset: u64,
    /// Number of bytes, at most 262144.
    pub bytes: u64,
}

/// Outputs of `read`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyReadOutput {
    /// The bytes, in base64.
    pub content: String,
    /// Number of bytes; fewer than requested at the end of the file.
    pub bytes: u64,
}
