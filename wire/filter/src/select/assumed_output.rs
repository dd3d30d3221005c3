//! Data source lookups and outputs in text form: `service("sshd")`, `puppet().enabled=false`. Uses the expression parser, so
//! that there is one syntax.

use std::str::FromStr;

use serde_json::Value;

use super::SelectExpression;
use super::ast::{ConditionSubject, SelectCondition, SourceOutput, ValueTest};
use crate::boolean_tree::BooleanTree;
use crate::error::{FilterError, FilterFault, Result};
use crate::lookup::DataLookup;
use crate::number::NumericValue;
use crate::term::{FactOperand, FactOperator, LiteralOperand};

/// An assumed output of a data source: `puppet().enabled=false`.
#[derive(Debug, Clone, PartialEq)]
pub struct AssumedOutput {
    /// The lookup.
    pub lookup: DataLookup,
    /// The output's name.
    pub output: String,
    /// Its value: a boolean or a number if the text parses as one, else a text.
    pub value: Value,
}

impl FromStr for AssumedOutput {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let invalid = || {
            let expected =
                "one output of a data source and its value, as in puppet().enabled=false";
            FilterFault::new(0, expected).into_filter_error(text)
        };
        let SelectExpression(BooleanTree::Term(SelectCondition::Test(
            ConditionSubject::Output(output),
            value_test,
        ))) = SelectExpression::parse(text)?
        else {
            return Err(invalid());
        };
        let ValueTest::Compare(FactOperator::Equal, FactOperand::Literal(literal)) = value_test
        else {
            return Err(invalid());
        };
        let SourceOutput { lookup, name, .. } = output;
        Ok(Self { lookup, output: name, value: literal_to_json(literal) })
    }
}

impl FromStr for DataLookup {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let assumed = AssumedOutput::from_str(&format!("{text}.x=1"));
        let assumed = assumed.ok().filter(|assumed| assumed.output == "x");
        assumed.map(|assumed| assumed.lookup).ok_or_else(|| {
            let expected = "a data source lookup, as in puppet() or service(\"sshd\")";
            FilterFault::new(0, expected).into_filter_error(text)
        })
    }
}

fn literal_to_json(literal: LiteralOperand) -> Value {
    let parse = || serde_json::from_str(&literal.text).ok();
    let parsed: Option<Value> = match literal.text.as_str() {
        "true" | "false" => parse(),
        _ => literal.number.and_then(|_: NumericValue| parse()),
    };
    parsed.unwrap_or(Value::String(literal.text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::AssumedOutput;
    use crate::DataLookup;

    #[test]
    fn assumption_is_one_output_with_its_value() {
        for (text, lookup, output, value) in [
            ("puppet().enabled=false", "puppet()", "enabled", json!(false)),
            ("puppet().enabled", "puppet()", "enabled", json!(true)),
            ("process('a=b').count == 2", "process(\"a=b\")", "count", json!(2)),
            ("package('o').version='1.2.3'", "package(\"o\")", "version", json!("1.2.3")),
        ] {
            let stated: AssumedOutput = text.parse().unwrap();
            assert_eq!(stated.lookup.to_string(), lookup);
            assert_eq!((stated.output.as_str(), stated.value), (output, value));
        }
        for text in [
            "",
            "customer=acme",
            "apache",
            "not puppet().enabled",
            "puppet().enabled!=true",
            "process('x').count > 1",
            "package('o').version=/1/",
            "puppet().enabled and puppet().applying",
            "puppet().enabled in [true, false]",
        ] {
            assert!(text.parse::<AssumedOutput>().is_err(), "{text}");
        }
    }

    #[test]
    fn lookups_round_trip_through_text() {
        for text in ["puppet()", "service(\"sshd\")", "a(\"\\\"b\\\\\")"] {
            assert_eq!(text.parse::<DataLookup>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "puppet",
            "puppet().enabled",
            "a() or b()",
            "not a()",
            "fact(\"x\").value",
            "a()=1 or b()",
        ] {
            assert!(text.parse::<DataLookup>().is_err(), "{text}");
        }
    }
}
