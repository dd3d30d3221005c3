//! What a DDL says about its agent or data source as a whole.

/// The agent's description, author, version and hosting.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct DdlMetadata {
    /// The agent's name, as used in subjects and on the command line.
    pub name: String,
    /// The agent's purpose, in a sentence.
    #[serde(default)]
    pub description: String,
    /// The maintainer.
    #[serde(default)]
    pub author: String,
    /// The licence of the agent, usually an SPDX name.
    #[serde(default)]
    pub license: String,
    /// The agent's version.
    #[serde(default)]
    pub version: String,
    /// A link to further information.
    #[serde(default)]
    pub url: String,
    /// Timeout of actions without their own, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
    /// The agent's host, for example `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether one node of a group answers, instead of every node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub service: bool,
    /// The resources that an external program needs. Where the kernel supports it, access to all others is blocked. Absent: the
    /// program is not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<AgentCapabilities>,
    /// Documents may have this key here or beside the metadata; `check` moves it to the latter place.
    #[serde(default, skip_serializing)]
    pub(crate) default_action: Option<String>,
}

/// The resources that an external agent declares, in addition to system programs, system libraries and its own directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentCapabilities {
    /// Files and directories (recursively) that it reads; absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Files and directories (recursively) that it reads and changes; absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether it opens or accepts TCP connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
}

const fn default_timeout() -> u64 {
    10
}
