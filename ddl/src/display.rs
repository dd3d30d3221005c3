//! Which replies are worth showing. Decides; draws nothing.

use std::fmt;
use std::str::FromStr;

/// Which replies an action wants shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisplayMode {
    /// Only those of nodes where the action succeeded.
    Ok,
    /// Only those of nodes where it failed; the default of `MCollective`.
    #[default]
    Failed,
    /// All of them.
    Always,
}

impl DisplayMode {
    /// Whether a reply is shown; `wish` is what the operator asked for, and wins.
    pub const fn shows_reply(self, succeeded: bool, wish: Option<DisplayOverride>) -> bool {
        match (wish, self) {
            (Some(DisplayOverride::All), _) | (None, Self::Always) => true,
            (Some(DisplayOverride::None), _) => false,
            (Some(DisplayOverride::Ok), _) | (None, Self::Ok) => succeeded,
            (Some(DisplayOverride::Failed), _) | (None, Self::Failed) => !succeeded,
        }
    }

    /// The word that documents use.
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

/// Which replies an operator wants to see, whatever the action says.
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

/// A word that is no [`DisplayOverride`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not say which replies to show; say ok, failed, all or none")]
pub struct UnknownOverride(String);

impl FromStr for DisplayOverride {
    type Err = UnknownOverride;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "ok" => Ok(Self::Ok),
            "failed" => Ok(Self::Failed),
            // `always` is the word of the DDL for the same thing.
            "all" | "always" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => Err(UnknownOverride(word.to_owned())),
        }
    }
}
