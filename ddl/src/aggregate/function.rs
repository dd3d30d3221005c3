//! The aggregate functions.

/// The aggregate functions of DDLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateFunction {
    /// Counts each value.
    Summary,
    /// The arithmetic mean of numbers.
    Average,
    /// The sum of numbers.
    Sum,
    /// Counts true and false, under labels.
    BooleanSummary,
    /// The distribution of numbers, as a row of bars.
    Chart,
}

impl AggregateFunction {
    /// All functions.
    pub const ALL: [Self; 5] =
        [Self::Summary, Self::Average, Self::Sum, Self::BooleanSummary, Self::Chart];

    /// The function that a DDL calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// The name in DDLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Average => "average",
            Self::Sum => "sum",
            Self::BooleanSummary => "boolean_summary",
            Self::Chart => "chart",
        }
    }
}
