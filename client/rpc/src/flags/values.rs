//! Values of arguments: when to use colours, names of facts, and the names of values as on the command line.

use anstream::ColorChoice;
use clap::ValueEnum;
use muster_filter::state::FactPath;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl From<ColorMode> for ColorChoice {
    fn from(mode: ColorMode) -> Self {
        match mode {
            ColorMode::Auto => Self::Auto,
            ColorMode::Always => Self::Always,
            ColorMode::Never => Self::Never,
        }
    }
}

/// The name of a value, as on the command line.
pub fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Checks the name of a fact, which may select a nested value.
pub fn parse_fact_name(text: &str) -> Result<String, String> {
    FactPath::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
