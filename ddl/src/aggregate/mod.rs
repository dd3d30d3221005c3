//! Summaries over the replies of many nodes, as declared by a DDL's `aggregate`.
//!
//! Replies are processed one by one and not kept. Rendering is elsewhere.

mod chart;
mod fold;
mod format;
pub(crate) mod function;
mod label_counts;
mod sum;

pub use chart::NumberDistribution;
use fold::AggregateFold;
pub use fold::SummaryResult;
pub use function::AggregateFunction;
use muster_base::count_text;
use serde_json::{Map, Value};

use crate::schema::{ActionSchema, AggregateSchema};

/// Widest column of labels, in characters: a value of one node does not lengthen all lines.
const MAX_LABEL_WIDTH: usize = 1000;

/// Computes an action's summaries, reply by reply.
pub struct ReplySummarizer {
    folds: Vec<(OutputSummary, Box<dyn AggregateFold>)>,
}

impl std::fmt::Debug for ReplySummarizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.to_summaries()).finish()
    }
}

impl ReplySummarizer {
    /// Starts the summaries that `action` declares. Duplicate declarations are computed once.
    pub fn new(action: &ActionSchema) -> Self {
        Self::for_request(action, false)
    }

    /// Starts the summaries of a request; a noop request counts what would change.
    pub fn for_request(action: &ActionSchema, noop: bool) -> Self {
        let mut distinct: Vec<&AggregateSchema> = Vec::new();
        for aggregate in &action.aggregates {
            if !distinct.contains(&aggregate) {
                distinct.push(aggregate);
            }
        }
        let folds = distinct.into_iter().map(|aggregate| {
            let display_as = action
                .find_output(&aggregate.output)
                .map_or(&aggregate.output, |out| &out.display_as);
            let format = aggregate.label_options().find(|(key, _)| *key == "format");
            let summary = OutputSummary {
                output: aggregate.output.clone(),
                display_as: display_as.clone(),
                function: aggregate.function,
                result: SummaryResult::Rows(Vec::new()),
                format: format.map(|(_, format)| format.to_owned()),
            };
            (summary, new_fold(aggregate, noop))
        });
        Self { folds: folds.collect() }
    }

    /// Adds the outputs of one reply. Null means "not computed" and is not counted.
    pub fn add_reply(&mut self, reply: &Map<String, Value>) {
        for (summary, fold) in &mut self.folds {
            if let Some(value) = reply.get(&summary.output).filter(|value| !value.is_null()) {
                fold.add_value(value);
            }
        }
    }

    /// The summaries of all replies so far, in the DDL's order.
    pub fn to_summaries(&self) -> Vec<OutputSummary> {
        let summaries = self
            .folds
            .iter()
            .map(|(summary, fold)| OutputSummary { result: fold.to_result(), ..summary.clone() });
        summaries.collect()
    }
}

fn new_fold(aggregate: &AggregateSchema, noop: bool) -> Box<dyn AggregateFold> {
    match aggregate.function {
        AggregateFunction::Summary | AggregateFunction::BooleanSummary => {
            Box::new(label_counts::LabelCounter::new(aggregate, noop))
        }
        AggregateFunction::Average => Box::<sum::AverageFold>::default(),
        AggregateFunction::Sum => Box::<sum::SumFold>::default(),
        AggregateFunction::Chart => Box::<chart::ChartFold>::default(),
    }
}

/// The summaries of all `replies` that `action` declares.
pub fn summarize_replies<'a>(
    action: &ActionSchema,
    replies: impl IntoIterator<Item = &'a Map<String, Value>>,
) -> Vec<OutputSummary> {
    let mut summarizer = ReplySummarizer::new(action);
    for reply in replies {
        summarizer.add_reply(reply);
    }
    summarizer.to_summaries()
}

/// The result of one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSummary {
    /// The summarised output.
    pub output: String,
    /// The output's title.
    pub display_as: String,
    /// The function.
    pub function: AggregateFunction,
    /// The result.
    pub result: SummaryResult,
    format: Option<String>,
}

impl OutputSummary {
    /// The value as JSON: counts by value, or a number, or null.
    pub fn to_json(&self) -> Value {
        match &self.result {
            SummaryResult::Rows(rows) => {
                rows.iter().map(|(label, count)| (label.clone(), Value::from(*count))).collect()
            }
            SummaryResult::Number { value, .. } => value.clone().map_or(Value::Null, Value::Number),
            SummaryResult::Distribution(distribution) => distribution.to_json(),
        }
    }

    /// The value as lines of text: in the DDL's `format`, else `value = count`, aligned.
    pub fn text_lines(&self) -> Vec<String> {
        match &self.result {
            SummaryResult::Rows(rows) => {
                let widths =
                    rows.iter().map(|(label, _)| label.chars().count().min(MAX_LABEL_WIDTH));
                let width = widths.max().unwrap_or(0);
                let line = |(label, count): &(String, u64)| match &self.format {
                    Some(format) => format::render_format(format, Some(label), &(*count).into()),
                    None => format!("{label:>width$} = {count}"),
                };
                rows.iter().map(line).collect()
            }
            SummaryResult::Distribution(distribution) => {
                let chart = distribution.chart_line().into_iter();
                chart.chain(skipped_line(distribution.skipped)).collect()
            }
            SummaryResult::Number { value, skipped, .. } => {
                let default = match self.function {
                    AggregateFunction::Average => "Average: %0.2f",
                    _ => "Total: %s",
                };
                let format = self.format.as_deref().unwrap_or(default);
                let number = value.iter().map(|number| format::render_format(format, None, number));
                number.chain(skipped_line(*skipped)).collect()
            }
        }
    }
}

/// The line about values that were left out.
fn skipped_line(skipped: u64) -> Option<String> {
    let values = count_text(skipped, "value is no number", "values are no numbers");
    (skipped > 0).then(|| format!("({values})"))
}

/// The `summaries` object of a result: `{"ensure": {"6.17": 1}}`. A second function on the same output has the key
/// `output.function`.
pub fn summaries_to_json(summaries: &[OutputSummary]) -> Map<String, Value> {
    let mut object = Map::new();
    for summary in summaries {
        let key = if object.contains_key(&summary.output) {
            format!("{}.{}", summary.output, summary.function.name())
        } else {
            summary.output.clone()
        };
        object.insert(key, summary.to_json());
    }
    object
}
