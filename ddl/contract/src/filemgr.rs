//! The agent `filemgr`: files of the machine.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The start of an absolute path.
const PATH_PATTERN: &str = "^/";

/// Examines and reads files, creates empty files and directories, and removes them.
#[derive(Debug, JsonSchema)]
pub struct FilemgrAgent;

impl AgentContract for FilemgrAgent {
    const NAME: &'static str = "filemgr";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<FilemgrStatus>()
            .add::<FilemgrList>()
            .add::<FilemgrRead>()
            .add::<FilemgrTouch>()
            .add::<FilemgrMkdir>()
            .add::<FilemgrRemove>();
    }
}

/// Show the metadata of a path; links are not followed.
#[derive(Debug, JsonSchema)]
pub struct FilemgrStatus;

impl Action for FilemgrStatus {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "status";
    type Input = FilePathInput;
    type Output = FilemgrStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("present")
            .summary("sha256")
            .examples(include_str!("filemgr/status.json"))
    }
}

/// The input of an action on one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilePathInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilemgrStatusOutput {
    /// Whether the path exists.
    pub present: bool,
    /// file, directory, link or other.
    #[schemars(extend("x-type" = "any"))]
    pub kind: Option<String>,
    /// Permissions, in octal.
    #[schemars(extend("x-type" = "any"))]
    pub mode: Option<String>,
    /// User id of the owner.
    #[schemars(title = "Owner", extend("x-type" = "any"))]
    pub uid: Option<u32>,
    /// Group id.
    #[schemars(title = "Group", extend("x-type" = "any"))]
    pub gid: Option<u32>,
    /// Size in bytes.
    #[schemars(extend("x-type" = "any"))]
    pub size: Option<u64>,
    /// Last change of the content, in seconds since the epoch.
    #[schemars(extend("x-type" = "any"))]
    pub modified: Option<u64>,
    /// The target of a link.
    #[schemars(extend("x-type" = "any"))]
    pub target: Option<String>,
    /// MD5 checksum of a file of up to 64 MiB, to compare with older tools.
    #[schemars(title = "MD5", extend("x-type" = "any"))]
    pub md5: Option<String>,
    /// SHA-256 checksum of a file of up to 64 MiB.
    #[schemars(extend("x-type" = "any"))]
    pub sha256: Option<String>,
}

/// List the entries of a directory.
#[derive(Debug, JsonSchema)]
pub struct FilemgrList;

impl Action for FilemgrList {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "list";
    type Input = FilePathInput;
    type Output = FilemgrListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("filemgr/list.json"))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilemgrListOutput {
    /// Number of entries.
    #[schemars(title = "Entries")]
    pub count: usize,
    /// Name, kind, mode and size of each entry, at most 2000.
    #[schemars(title = "Content")]
    pub entries: Vec<DirectoryEntryRow>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryEntryRow {
    /// Its name.
    pub name: String,
    /// file, directory, link or other.
    pub kind: String,
    /// Permissions, in octal.
    pub mode: String,
    /// Size in bytes.
    pub size: u64,
}

/// Read a part of a text file of up to 64 MiB.
#[derive(Debug, JsonSchema)]
pub struct FilemgrRead;

impl Action for FilemgrRead {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "read";
    type Input = FilemgrReadInput;
    type Output = FilemgrReadOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("filemgr/read.json"))
    }
}

/// Inputs of `read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilemgrReadInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
    /// Start in bytes from the beginning, or from the end if negative.
    #[schemars(extend("x-default" = 0))]
    pub offset: i64,
    /// Number of bytes, at most 65536.
    #[schemars(extend("x-default" = 65_536))]
    pub bytes: u64,
}

/// Outputs of `read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilemgrReadOutput {
    /// The part of the file.
    pub text: String,
    /// Size of the file.
    pub size: u64,
    /// The offset after the part, to continue reading.
    #[schemars(title = "Next Offset")]
    pub offset: u64,
}

/// Create an empty file, or set the modification time of an existing one to now.
#[derive(Debug, JsonSchema)]
pub struct FilemgrTouch;

impl Action for FilemgrTouch {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "touch";
    type Input = FileChangeInput;
    type Output = FileChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().change_summary().examples(include_str!("filemgr/touch.json"))
    }
}

/// The inputs of an action that changes one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChangeInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Whether something was changed, or would be with `noop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChangeOutput {
    /// Whether anything changed.
    pub changed: bool,
}

/// Create a directory, unless it exists; its parent must exist.
#[derive(Debug, JsonSchema)]
pub struct FilemgrMkdir;

impl Action for FilemgrMkdir {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "mkdir";
    type Input = FileChangeInput;
    type Output = FileChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .change_summary()
            .examples(include_str!("filemgr/mkdir.json"))
    }
}

/// Remove a file, a link or an empty directory.
#[derive(Debug, JsonSchema)]
pub struct FilemgrRemove;

impl Action for FilemgrRemove {
    type Agent = FilemgrAgent;
    const NAME: &'static str = "remove";
    type Input = FilemgrRemoveInput;
    type Output = FileChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .change_summary()
            .examples(include_str!("filemgr/remove.json"))
    }
}

/// Inputs of `remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilemgrRemoveInput {
    /// Absolute path, without `..`.
    #[schemars(length(max = 4096), regex(pattern = PATH_PATTERN))]
    pub path: String,
    /// Also remove a directory that is not empty, with its content.
    #[schemars(extend("x-default" = false))]
    pub recursive: bool,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}
