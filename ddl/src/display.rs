//! Decides which replies are displayed.

use std::fmt;
use std::str::FromStr;

/// Which replies of an action are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisplayMode {
    /// Only successful ones.
    Ok,
    /// Only failed ones; the default of `MCollective`.
    #[default]
    Failed,
    /// All of them.
    Always,
}

impl DisplayMode {
    /// Whether a reply is displayed; `requested` is the operator's choice and takes precedence.
    pub const fn shows_reply(self, succeeded: bool, requested: Option<DisplayOverride>) -> bool {
        match (requested, self) {
            (Some(DisplayOverride::All), _) | (None, Self::Always) => true,
            (Some(DisplayOverride::None), _) => false,
            (Some(DisplayOverride::Ok), _) | (None, Self::Ok) => succeeded,
            (Some(DisplayOverride::Failed), _) | (None, Self::Failed) => !succeeded,
        }
    }

    /// The keyword in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for DisplayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The operator's choice of displayed replies, which overrides the action's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisplayOverride {
    /// Only successes.
    Ok,
    /// Only failures.
    Failed,
    /// All replies.
    All,
    /// No reply.
    None,
}

/// The text is not a [`DisplayOverride`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a selection of replies to show; use ok, failed, all or none")]
pub struct UnknownOverride(String);

impl FromStr for DisplayOverride {
    type Err = UnknownOverride;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "ok" => Ok(Self::Ok),
            "failed" => Ok(Self::Failed),
            // `always` is the DDL keyword for `all`.
            "all" | "always" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => Err(UnknownOverride(word.to_owned())),
        }
    }
}
