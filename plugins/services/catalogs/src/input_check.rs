//! Checks that a catalog depends on nothing but what was recorded: compiles a node twice more, once unchanged and once with every fact altered that the compile
//! did not read. The result must be the same. For the authors of module sets, and for their tests.

use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use crate::compiler::CompilerError;
use crate::compiler::protocol::CompileFailure;
use crate::handle::CompilableNode;
use crate::inputs::{RecordedInputs, ValueRead};
use crate::queries::CompileQueries;
use crate::releases::{ResourceChange, diff_catalogs};
use crate::worker::CompileWorker;

/// A fact that no node has.
const NEW_FACT: &str = "muster_check_inputs";

/// What the check of a node found.
#[derive(Debug, Default)]
pub struct InputCheck {
    /// Facts that were not read, and altered.
    pub altered: usize,
    /// Resources that differ between two compiles of the same inputs.
    pub unsteady: Vec<(String, ResourceChange)>,
    /// Resources that differ after unread facts were altered.
    pub missed: Vec<(String, ResourceChange)>,
    /// Why there is no catalog.
    pub failure: Option<CompileFailure>,
}

impl CompileWorker {
    /// Checks one node; `None` if it cannot be compiled now. Nothing is stored.
    pub async fn check_inputs(&self, node: &Identity) -> Result<Option<InputCheck>, CompilerError> {
        let Some(mut current) = self.handle.compilable(node) else { return Ok(None) };
        let (first, recorded) = match self.compile_public(&current).await? {
            Ok(compiled) => compiled,
            Err(failure) => {
                return Ok(Some(InputCheck { failure: Some(failure), ..InputCheck::default() }));
            }
        };
        let mut check = InputCheck::default();
        match self.compile_public(&current).await? {
            Ok((second, _)) => check.unsteady = diff_catalogs(&first, &second),
            Err(failure) => check.failure = Some(failure),
        }
        check.altered = alter_unread(&mut current.snapshot.facts, &recorded);
        match self.compile_public(&current).await? {
            Ok((third, _)) => check.missed = diff_catalogs(&first, &third),
            Err(failure) => check.failure = Some(failure),
        }
        // What differs by itself says nothing about facts.
        check
            .missed
            .retain(|(resource, _)| check.unsteady.iter().all(|(other, _)| other != resource));
        Ok(Some(check))
    }

    /// The catalog without its secrets, and what was read for it.
    async fn compile_public(
        &self,
        current: &CompilableNode,
    ) -> Result<Result<(Map<String, Value>, RecordedInputs), CompileFailure>, CompilerError> {
        let queries = CompileQueries::new(self.handle.queries());
        let outcome = self.run_compiler(current, &queries).await?;
        Ok(outcome.result.map(|catalog| {
            let stored = self.stored_form(current, catalog);
            (stored.public().clone(), outcome.inputs.unwrap_or_else(record_all))
        }))
    }
}

/// Alters each fact that was not read, and adds one. Returns how many.
fn alter_unread(facts: &mut Map<String, Value>, recorded: &RecordedInputs) -> usize {
    let is_read = |path: &[String]| {
        recorded.values.iter().any(|(read, how)| match how {
            // With all that is in it.
            ValueRead::Value => path.starts_with(read),
            ValueRead::Kind => path == read,
            ValueRead::Exists | ValueRead::Named => false,
        })
    };
    let mut path = vec!["facts".to_owned()];
    let mut altered = alter_below(facts, &mut path, &is_read);
    path.push(NEW_FACT.to_owned());
    if !is_read(&path) && !facts.contains_key(NEW_FACT) {
        facts.insert(NEW_FACT.to_owned(), "x".into());
        altered += 1;
    }
    altered
}

fn alter_below(
    facts: &mut Map<String, Value>,
    path: &mut Vec<String>,
    is_read: &impl Fn(&[String]) -> bool,
) -> usize {
    let mut altered = 0;
    for (name, value) in facts {
        path.push(name.clone());
        if let Value::Object(below) = value {
            altered += alter_below(below, path, is_read);
        } else if !is_read(path) {
            *value = altered_value(value);
            altered += 1;
        }
        path.pop();
    }
    altered
}

fn altered_value(value: &Value) -> Value {
    match value {
        Value::Null => "x".into(),
        Value::Bool(flag) => (!flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.saturating_add(1).into(),
            None => 0.into(),
        },
        Value::String(text) => format!("{text}x").into(),
        Value::Array(list) => list.iter().cloned().chain([Value::from("x")]).collect(),
        Value::Object(map) => Value::Object(map.clone()),
    }
}

/// What a compiler reads that does not say what it read.
fn record_all() -> RecordedInputs {
    let facts = (vec!["facts".to_owned()], ValueRead::Value);
    RecordedInputs { values: vec![facts], ..RecordedInputs::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{NEW_FACT, alter_unread};
    use crate::inputs::{RecordedInputs, ValueRead};

    fn alter(read: &[(&str, ValueRead)]) -> (usize, Map<String, Value>) {
        let values = read.iter().map(|(path, how)| {
            let path = format!("facts.{path}");
            (path.trim_end_matches('.').split('.').map(str::to_owned).collect(), *how)
        });
        let recorded = RecordedInputs { values: values.collect(), ..RecordedInputs::default() };
        let facts = json!({"role": "web", "os": {"family": "Debian", "major": 12}, "up": true});
        let mut facts = facts.as_object().cloned().unwrap();
        (alter_unread(&mut facts, &recorded), facts)
    }

    #[test]
    fn only_what_was_not_read_is_altered() {
        let read =
            [("os", ValueRead::Kind), ("os.family", ValueRead::Kind), ("up", ValueRead::Exists)];
        let (altered, facts) = alter(&read);
        assert_eq!(altered, 4);
        assert_eq!(
            Value::Object(facts),
            json!({"role": "webx", "os": {"family": "Debian", "major": 13}, "up": false, NEW_FACT: "x"})
        );
        let (altered, facts) = alter(&[("os", ValueRead::Value)]);
        assert_eq!((altered, &facts["os"]["major"]), (3, &12.into()));
        assert_eq!(alter(&[("", ValueRead::Value)]).0, 0, "all facts were read");
    }
}
