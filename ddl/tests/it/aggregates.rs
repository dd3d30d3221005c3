//! Summaries over replies.

use muster_ddl::AgentDdl;
use muster_ddl::aggregate::{
    AggregateFunction, OutputSummary, ReplySummarizer, SummaryResult, summaries_to_json,
    summarize_replies,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{object, one_action, packages};

fn replies(values: &[Value]) -> Vec<Map<String, Value>> {
    values.iter().map(|value| object(json!({"x": value}))).collect()
}

fn aggregated(aggregate: Value, values: &[Value]) -> OutputSummary {
    let ddl = ddl(json!([aggregate]));
    summarize_replies(ddl.find_action("act").unwrap(), &replies(values)).remove(0)
}

fn ddl(aggregates: Value) -> AgentDdl {
    one_action(json!({"output": {"x": {"display_as": "The X"}}, "aggregate": aggregates})).unwrap()
}

#[test]
fn summary_counts_values_and_elements_most_frequent_first() {
    let values =
        [json!("b"), json!(["a", ["c", "b"]]), json!(null), json!(7), json!("a"), json!("b")];
    let summary = aggregated(json!({"function": "summary", "args": ["x"]}), &values);
    assert_eq!((summary.output.as_str(), summary.display_as.as_str()), ("x", "The X"));
    let rows = [("b", 3), ("a", 2), ("7", 1), ("c", 1)].map(|(label, n)| (label.to_owned(), n));
    assert_eq!(summary.result, SummaryResult::Rows(rows.to_vec()));
    assert_eq!(summary.to_json(), json!({"a": 2, "b": 3, "c": 1, "7": 1}));
    assert_eq!(summary.text_lines(), ["b = 3", "a = 2", "7 = 1", "c = 1"]);
}

#[test]
fn booleans_are_counted_under_their_labels() {
    let labels = json!({"true": "Changed", "false": "No Change"});
    for function in ["boolean_summary", "summary"] {
        let aggregate = json!({"function": function, "args": ["x", labels]});
        let values = [json!(true), json!(false), json!(false), json!(null)];
        let summary = aggregated(aggregate, &values);
        assert_eq!(summary.to_json(), json!({"No Change": 2, "Changed": 1}));
        assert_eq!(summary.text_lines(), ["No Change = 2", "  Changed = 1"]);
    }
}

#[test]
fn summaries_use_the_declared_formats() {
    let format = json!({"format": "%s Tests on %d node(s)"});
    let summary =
        aggregated(json!({"function": "summary", "args": ["x", format]}), &[json!(3), json!(3)]);
    assert_eq!(summary.text_lines(), ["3 Tests on 2 node(s)"]);
    let format = json!({"format": "Mean %0.1f"});
    let mean =
        aggregated(json!({"function": "average", "args": ["x", format]}), &[json!(1), json!(2)]);
    assert_eq!(mean.text_lines(), ["Mean 1.5"]);
}

#[test]
fn sums_and_averages_report_non_numeric_values() {
    let values = [json!(1), json!(2.5), json!("3 MB"), json!(null)];
    let sum = aggregated(json!({"function": "sum", "args": ["x"]}), &values);
    let number = |n: f64| serde_json::Number::from_f64(n);
    assert_eq!(sum.result, SummaryResult::Number { value: number(3.5), count: 2, skipped: 1 });
    let mean = aggregated(json!({"function": "average", "args": ["x"]}), &values);
    assert_eq!(mean.to_json(), json!(1.75));
    assert_eq!(mean.text_lines(), ["Average: 1.75", "(1 value is no number)"]);
    for function in ["sum", "average"] {
        let none = aggregated(json!({"function": function, "args": ["x"]}), &[json!("a")]);
        let line = "(1 value is no number)".to_owned();
        assert_eq!((none.to_json(), none.text_lines()), (Value::Null, vec![line]));
    }
    let huge = aggregated(json!({"function": "sum", "args": ["x"]}), &[json!(1e308), json!(1e308)]);
    assert_eq!(huge.to_json(), Value::Null, "a sum beyond the range of JSON numbers is null");
}

/// The values of Choria's own test of `average`, and texts that Go's `ParseFloat` reads.
#[test]
fn texts_of_numbers_are_numbers() {
    let values = [json!(1), json!(1.1), json!(100), json!("1"), json!("a")];
    let mean = aggregated(json!({"function": "average", "args": ["x"]}), &values);
    assert_eq!(mean.to_json(), json!(25.775));
    assert_eq!(mean.text_lines(), ["Average: 25.77", "(1 value is no number)"]);
    let texts = ["1", "-2", "+3", "1.5", ".5", "1.", "1e3"].map(|text| json!(text));
    let sum = aggregated(json!({"function": "sum", "args": ["x"]}), &texts);
    assert_eq!(sum.to_json(), json!(1005.0));
    let exact = ["9007199254740993", "2"].map(|text| json!(text));
    let sum = aggregated(json!({"function": "sum", "args": ["x"]}), &exact);
    assert_eq!(sum.text_lines(), ["Total: 9007199254740995"]);
    let others = [json!(""), json!(" 1"), json!("NaN"), json!("inf"), json!("1e400"), json!(true)];
    let sum = aggregated(json!({"function": "sum", "args": ["x"]}), &others);
    assert_eq!(sum.text_lines(), ["(6 values are no numbers)"]);
    let chart = [json!(1), json!(7), json!("50"), json!("x")];
    let chart = aggregated(json!({"function": "chart", "args": ["x"]}), &chart);
    let SummaryResult::Distribution(found) = &chart.result else { panic!("{chart:?}") };
    assert_eq!((found.least, found.greatest, found.skipped), (1.0, 50.0, 1));
}

#[test]
fn duplicate_aggregates_are_merged_and_functions_have_separate_keys() {
    let ddl = packages();
    let install = ddl.find_action("install").unwrap();
    let reply = object(json!({"ensure": "1.0", "since": 4}));
    let summaries = summarize_replies(install, [&reply]);
    let functions: Vec<_> = summaries.iter().map(|summary| summary.function).collect();
    assert_eq!(functions, [AggregateFunction::Summary, AggregateFunction::Average]);
    assert_eq!(
        Value::from(summaries_to_json(&summaries)),
        json!({"ensure": {"1.0": 1}, "since": 4.0})
    );

    let ddl = self::ddl(
        json!([{"function": "sum", "args": ["x"]}, {"function": "average", "args": ["x"]}]),
    );
    let summaries =
        summarize_replies(ddl.find_action("act").unwrap(), &replies(&[json!(2), json!(4)]));
    assert_eq!(Value::from(summaries_to_json(&summaries)), json!({"x": 6, "x.average": 3.0}));
}

proptest! {
    #[test]
    fn counts_do_not_depend_on_the_order(mut values in proptest::collection::vec("[a-d]", 0..40)) {
        let ddl = ddl(json!([{"function": "summary", "args": ["x"]}]));
        let summed = |values: &[String]| {
            let mut summarizer = ReplySummarizer::new(ddl.find_action("act").unwrap());
            for value in values {
                summarizer.add_reply(&object(json!({"x": value})));
            }
            summarizer.to_summaries().remove(0).result
        };
        let result = summed(&values);
        let SummaryResult::Rows(rows) = &result else { panic!("{result:?}") };
        prop_assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
        prop_assert!(rows.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
        values.reverse();
        prop_assert_eq!(summed(&values), result);
    }

    #[test]
    fn sums_of_integers_are_exact(values in proptest::collection::vec(any::<i32>(), 1..40)) {
        let json: Vec<_> = values.iter().map(|value| json!(value)).collect();
        let sum = aggregated(json!({"function": "sum", "args": ["x"]}), &json);
        prop_assert_eq!(sum.to_json(), json!(values.iter().map(|value| i64::from(*value)).sum::<i64>()));
    }
}
