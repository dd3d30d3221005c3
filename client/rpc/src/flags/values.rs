//! Values of arguments: when to use colours, and the names of values as on the command line.

use anstream::ColorChoice;
use clap::ValueEnum;

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
