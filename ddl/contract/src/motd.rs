//! The agent `motd`, and the file from which `rpc prompt` reads what a prompt shows.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the daemon keeps the file of the prompt, by default of the packages.
pub const PROMPT_CACHE_PATH: &str = "/run/muster/prompt.json";
/// Largest file of the prompt, in bytes.
pub const MAX_PROMPT_CACHE_BYTES: u64 = 64 * 1024;
/// The daemon touches the file at least this often, in seconds. One that is older than twice this is of a daemon that does not run.
pub const PROMPT_REFRESH_SECONDS: u64 = 600;

/// The name of a fragment.
const NAME_PATTERN: &str = r"\A[^/{\x00-\x1f\x7f]+\z";
/// The texts that have fragments.
const TARGETS: [&str; 3] = ["motd", "issue", "prompt"];

/// Manages the fragments of the message of the day, of the text before a login and of the prompt.
#[derive(Debug, JsonSchema)]
pub struct MotdAgent;

impl AgentContract for MotdAgent {
    const NAME: &'static str = "motd";
    const TIMEOUT: u64 = 20;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<MotdRegister>().add::<MotdUnregister>().add::<MotdRender>();
    }
}

/// Write a fragment and render the texts.
#[derive(Debug, JsonSchema)]
pub struct MotdRegister;

impl Action for MotdRegister {
    type Agent = MotdAgent;
    const NAME: &'static str = "register";
    type Input = MotdRegisterInput;
    type Output = MotdChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .display_failed()
            .summary("changed")
            .examples(include_str!("motd/register.json"))
    }
}

/// Inputs of `register`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MotdRegisterInput {
    /// The name of the fragment: a printable line without `/` and `{`.
    #[schemars(length(max = 200), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// The text, a template over identity, facts, classes and state; default: the name as an item of a list.
    #[schemars(length(max = 8192))]
    pub content: Option<String>,
    /// Fragments are sorted by this number, then by name; default: 10.
    pub order: Option<u32>,
    /// Show the text only while the node has this class.
    #[schemars(length(max = 200), regex(pattern = r"\A[a-z][a-z0-9_]*(::[a-z][a-z0-9_]*)*\z"))]
    pub class: Option<String>,
    /// Which text: motd after a login, issue before it, or the prompt; default: motd.
    #[schemars(extend("enum" = TARGETS))]
    pub target: Option<String>,
}

/// Outputs of `register` and `unregister`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MotdChangeOutput {
    /// Whether a file changed.
    pub changed: bool,
    /// The text of the target now.
    pub text: String,
    /// Fragments that are left out and files that could not be written, with the reasons.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// Remove a fragment and render the texts.
#[derive(Debug, JsonSchema)]
pub struct MotdUnregister;

impl Action for MotdUnregister {
    type Agent = MotdAgent;
    const NAME: &'static str = "unregister";
    type Input = MotdUnregisterInput;
    type Output = MotdChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .display_failed()
            .summary("changed")
            .examples(include_str!("motd/unregister.json"))
    }
}

/// Inputs of `unregister`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MotdUnregisterInput {
    /// The name of the fragment: a printable line without `/` and `{`.
    #[schemars(length(max = 200), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Which text: motd after a login, issue before it, or the prompt; default: motd.
    #[schemars(extend("enum" = TARGETS))]
    pub target: Option<String>,
}

/// Return a text as the daemon renders it now.
#[derive(Debug, JsonSchema)]
pub struct MotdRender;

impl Action for MotdRender {
    type Agent = MotdAgent;
    const NAME: &'static str = "render";
    type Input = MotdRenderInput;
    type Output = MotdRenderOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("motd/render.json"))
    }
}

/// Inputs of `render`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MotdRenderInput {
    /// Which text: motd after a login, issue before it, or the prompt; default: motd.
    #[schemars(extend("enum" = TARGETS))]
    pub target: Option<String>,
}

/// Outputs of `render`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MotdRenderOutput {
    /// The text.
    pub text: String,
    /// The files to which the daemon writes it.
    #[serde(default)]
    pub files: Vec<String>,
    /// Fragments that are left out and files that could not be written, with the reasons.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// A colour of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TerminalColor {
    /// Colour 1.
    Red,
    /// Colour 2.
    Green,
    /// Colour 3.
    Yellow,
    /// Colour 4.
    Blue,
    /// Colour 5.
    Magenta,
    /// Colour 6.
    Cyan,
    /// Colour 7.
    White,
}

impl TerminalColor {
    /// All colours.
    pub const ALL: [Self; 7] =
        [Self::Red, Self::Green, Self::Yellow, Self::Blue, Self::Magenta, Self::Cyan, Self::White];

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Blue => "blue",
            Self::Magenta => "magenta",
            Self::Cyan => "cyan",
            Self::White => "white",
        }
    }

    /// The parameter of the escape sequence that selects the colour for text (ECMA-48, SGR).
    pub fn sgr_parameter(self) -> u8 {
        match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
            Self::Magenta => 35,
            Self::Cyan => 36,
            Self::White => 37,
        }
    }
}

/// What a prompt shows of the node. The daemon writes it as JSON; `rpc prompt` reads it without a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptStatus {
    /// Values of the configured facts, such as customer and environment.
    #[serde(default)]
    pub segments: Vec<PromptSegment>,
    /// Words of the fragments in `prompt.d`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Short reasons to look closer, such as `puppet-disabled`.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A word of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSegment {
    /// The word.
    pub text: String,
    /// Its colour, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<TerminalColor>,
}

/// Most characters of a word of the prompt.
const MAX_PROMPT_WORD_CHARS: usize = 32;

/// A word for a prompt. Shells interpret `$`, `%`, backslashes and backticks in prompts, so only letters, digits and `.:_+@/-` are kept; others become
/// `_`. `None` if nothing is left.
pub fn prompt_word(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_alphanumeric() || ".:_+@/-".contains(c);
    let characters = text.trim().chars().take(MAX_PROMPT_WORD_CHARS);
    let word: String = characters.map(|c| if is_plain(c) { c } else { '_' }).collect();
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PROMPT_WORD_CHARS, prompt_word};

    #[test]
    fn words_contain_nothing_that_a_shell_interprets() {
        for (text, word) in [
            ("a$(id)`id`", "a__id__id_"),
            ("%F{red}\\[\\e", "_F_red____e"),
            ("\u{1b}[31m\u{7}!", "__31m__"),
            ("  web  ", "web"),
            ("münchen", "münchen"),
            (&"x".repeat(99), &"x".repeat(MAX_PROMPT_WORD_CHARS)),
        ] {
            assert_eq!(prompt_word(text).as_deref(), Some(word), "{text:?}");
        }
        assert_eq!(prompt_word(" \t"), None);
    }
}
