//! Generates the DDL of an agent from the types of its actions.
//!
//! `document` has the keys of a DDL in their order, `fields` derives inputs and outputs from a type's JSON Schema, `field_order` finds the
//! order of their declaration, which a JSON Schema does not keep, and `inner_schemas` has the key `schema`.

mod document;
mod field_order;
mod fields;
mod inner_schemas;
#[cfg(test)]
mod tests;

use muster_contract::read_values;
use muster_ddl::{Action, ActionExample, ActionList, ActionSchema, AgentContract, AgentDdl};
use serde_json::Value;

use document::{ActionDocument, AgentDocument};

/// The name of an agent and its document, or why the types have none.
pub(crate) fn generate_document<T: AgentContract>() -> (&'static str, Result<String, String>) {
    let document = build_document::<T>().map_err(|problem| format!("{}: {problem}", T::NAME));
    (T::NAME, document)
}

fn build_document<T: AgentContract>() -> Result<String, String> {
    let mut actions = GeneratedActions::default();
    T::list_actions(&mut actions);
    let document = AgentDocument::new::<T>(actions.documents?)?;
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())? + "\n";
    let ddl = AgentDdl::from_slice(text.as_bytes()).map_err(|error| describe_error(&error))?;
    let mut examples = CheckedExamples { ddl: &ddl, problems: Vec::new() };
    T::list_actions(&mut examples);
    match examples.problems.first() {
        Some(problem) => Err(problem.clone()),
        None => Ok(text),
    }
}

/// An error with its causes in one line. Some errors name their cause themselves.
fn describe_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.ends_with(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}

/// The actions of an agent, or the first problem.
struct GeneratedActions {
    documents: Result<Vec<ActionDocument>, String>,
}

impl Default for GeneratedActions {
    fn default() -> Self {
        Self { documents: Ok(Vec::new()) }
    }
}

impl ActionList for GeneratedActions {
    fn add<A: Action>(&mut self) -> &mut Self {
        if let Ok(documents) = &mut self.documents {
            match ActionDocument::new::<A>() {
                Ok(document) => documents.push(document),
                Err(problem) => self.documents = Err(format!("{}: {problem}", A::NAME)),
            }
        }
        self
    }
}

/// Examples that the types of their action cannot read. The DDL itself refuses those that do not fit it.
struct CheckedExamples<'a> {
    ddl: &'a AgentDdl,
    problems: Vec<String>,
}

impl ActionList for CheckedExamples<'_> {
    fn add<A: Action>(&mut self) -> &mut Self {
        if let Some(action) = self.ddl.find_action(A::NAME) {
            if action.examples().is_empty() {
                self.problems.push(format!("{}: there is no example", A::NAME));
            }
            let checked =
                action.examples().iter().map(|example| check_example::<A>(action, example));
            let problems = checked.filter_map(Result::err);
            self.problems.extend(problems.map(|problem| format!("{}: {problem}", A::NAME)));
        }
        self
    }
}

fn check_example<A: Action>(action: &ActionSchema, example: &ActionExample) -> Result<(), String> {
    let ActionExample { description, input, output } = example;
    let input = action.validate_input(input).map_err(|error| error.to_string())?;
    serde_json::from_value::<A::Input>(Value::Object(input))
        .map_err(|error| format!("the input of the example {description:?}: {error}"))?;
    read_values::<A::Output>(output)
        .map_err(|error| format!("the output of the example {description:?}: {error}"))?;
    Ok(())
}
