//! Summaries over the replies: `summary`, `average` and `chart`.

use muster_ddl::AgentDdl;
use muster_ddl::aggregate::{OutputSummary, SummaryResult, summarize_replies};
use serde_json::{Map, Value, json};

use super::Agreement::{Different, Equal};
use super::{Comparison, compare};

const PLACES: &str = "an average has two decimal places, as in MCollective; JSON has all of them";
const SEPARATOR: &str = "counts are shown as `value = count`, as in MCollective";

fn summarise(function: &str, options: &Value, values: &[Value]) -> OutputSummary {
    let aggregate = json!([{"function": function, "args": ["x", options]}]);
    let action = json!({
        "action": "act", "description": "Act", "aggregate": aggregate,
        "output": {"x": {"description": "x", "display_as": "X"}},
    });
    let document = json!({"metadata": {"name": "one"}, "actions": [action]});
    let ddl = AgentDdl::from_slice(document.to_string().as_bytes()).unwrap();
    let replies: Vec<_> =
        values.iter().map(|value| Map::from_iter([("x".to_owned(), value.clone())])).collect();
    summarize_replies(ddl.find_action("act").unwrap(), &replies).remove(0)
}

#[test]
fn replies_are_summarised_as_in_choria() {
    let numbers = [json!(1), json!(1.1), json!(100), json!("1"), json!("b")];
    let colours = ["red", "magenta", "magenta", "magenta"].map(|text| json!(text));
    let colours = [&colours[..], &[json!(7), json!(7)]].concat();
    let states = [
        json!("true"),
        json!(true),
        json!("false"),
        json!(false),
        json!("false"),
        json!("part"),
        json!(1),
        json!("1"),
        json!("else"),
    ];
    let names = json!({"true": "on", "false": "off", "part": "half on", "1": "one"});
    let none = json!({});
    let average = summarise("average", &none, &numbers);
    let summary = summarise("summary", &none, &colours);
    let formatted = summarise("summary", &json!({"format": "%s: %d"}), &colours);
    let custom = summarise("summary", &json!({"format": "%s=%v"}), &colours);
    let mapped = summarise("summary", &names, &states);
    let chart = summarise("chart", &none, &[json!(1), json!(7), json!("50")]);
    let SummaryResult::Distribution(spread) = &chart.result else { panic!("{chart:?}") };
    let ask = |question: &str, choria: &str, muster: String, expected| Comparison {
        question: question.to_owned(),
        choria: choria.to_owned(),
        muster: Ok(muster),
        expected,
    };
    let lines = |summary: &OutputSummary| summary.text_lines().join("|");
    compare(
        "summaries",
        &[
            ask("average as JSON", "25.775", average.to_json().to_string(), Equal),
            ask("average as text", "Average: 25.775", lines(&average), Different(PLACES)),
            ask(
                "counts as JSON",
                r#"{"7":2,"magenta":3,"red":1}"#,
                summary.to_json().to_string(),
                Equal,
            ),
            ask(
                "counts as text",
                "magenta: 3|      7: 2|    red: 1",
                lines(&summary),
                Different(SEPARATOR),
            ),
            ask("counts with a format", "magenta: 3|7: 2|red: 1", lines(&formatted), Equal),
            ask("counts with a format of any value", "magenta=3|7=2|red=1", lines(&custom), Equal),
            ask(
                "counts of named values",
                r#"{"else":1,"half on":1,"off":3,"on":2,"one":2}"#,
                mapped.to_json().to_string(),
                Equal,
            ),
            ask(
                "values of a chart",
                "1 50",
                format!("{} {}", spread.least, spread.greatest),
                Equal,
            ),
        ],
    );
}
