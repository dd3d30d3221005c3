//! A program as one of the engine's types: each look, change and refresh is a call of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::Command;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::description::{Description, leaked, leaked_schema};
use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::{Data, Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::Schema;

/// The words' edition.
const PROTOCOL: &str = "muster/type/v1";
/// The longest answer, in bytes.
const LONGEST: usize = 16 * 1024 * 1024;

/// One of them.
#[derive(Debug)]
pub(super) struct ExternalType {
    schema: &'static Schema,
    program: PathBuf,
    timeout: Duration,
    refreshes: bool,
    /// Attributes whose values name resources of a type that come first.
    requires: Vec<(String, &'static str)>,
}

/// What the program reads.
#[derive(Serialize)]
struct Call<'a> {
    protocol: &'static str,
    op: &'static str,
    #[serde(rename = "type")]
    type_name: &'a str,
    name: &'a str,
    desired: &'a Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    property: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a Values>,
}

/// What it prints.
#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
    state: Option<Map<String, Json>>,
    resources: Option<Vec<Listed>>,
    #[serde(default)]
    log: Vec<String>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    state: Map<String, Json>,
}

impl ExternalType {
    pub(super) fn new(
        name: &str,
        described: &Description,
        program: PathBuf,
    ) -> Result<Self, String> {
        let requires = described
            .attributes
            .iter()
            .filter_map(|(name, one)| Some((name.clone(), leaked(one.requires.as_deref()?))));
        Ok(Self {
            schema: leaked_schema(name, described)?,
            program,
            timeout: Duration::from_secs(described.timeout),
            refreshes: described.refreshes,
            requires: requires.collect(),
        })
    }

    fn call(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        call: &Call<'_>,
    ) -> Result<Answer, EngineError> {
        let failed = |problem: String| EngineError::failed(resource, problem);
        let program = self.program.display();
        let mut command = Command::new([self.program.display().to_string(), call.op.to_owned()]);
        command.stdin = serde_json::to_vec(call).map_err(|error| failed(error.to_string()))?;
        command.cwd = self.program.parent().map(Path::to_owned);
        command.timeout = Some(self.timeout);
        command.output_limit = LONGEST;
        command.cancel = cx.cancel.clone();
        let doing = format!("cannot ask {program} to {}", call.op);
        let output = cx
            .system
            .run(&command)
            .map_err(EngineError::during(resource, doing))?;
        if !output.success() {
            let (code, text) = (output.code, output.text());
            let last = text.trim().lines().next_back().unwrap_or_default();
            return Err(failed(format!("{program} ended with {code}: {last}")));
        }
        let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|error| {
            failed(format!(
                "{program} printed something else than one JSON object: {error}"
            ))
        })?;
        for line in &answer.log {
            cx.say(line.clone());
        }
        match answer.error {
            Some(problem) => Err(failed(problem)),
            None => Ok(answer),
        }
    }

    fn about<'a>(&'a self, op: &'static str, resource: &'a Resource) -> Call<'a> {
        Call {
            protocol: PROTOCOL,
            op,
            type_name: self.schema.type_name,
            name: &resource.name,
            desired: &resource.values,
            property: None,
            state: None,
        }
    }

    fn state(&self, found: Map<String, Json>) -> Values {
        let property = |name: &str| {
            self.schema
                .properties()
                .find(|property| property.name == name)
        };
        found
            .into_iter()
            .filter_map(|(name, json)| Some((property(&name)?.name.to_owned(), value(json)?)))
            .collect()
    }
}

impl ResourceType for ExternalType {
    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let answer = self.call(cx, resource, &self.about("read", resource))?;
        let found = answer
            .state
            .ok_or_else(|| EngineError::failed(resource, "the program told no `state`"))?;
        Ok(State {
            values: self.state(found),
        })
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let call = Call {
            property: Some(&change.property),
            state: Some(&plan.state.values),
            ..self.about("apply", &plan.resource)
        };
        self.call(cx, &plan.resource, &call).map(|_| ())
    }

    fn refreshes(&self) -> bool {
        self.refreshes
    }

    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        self.call(cx, resource, &self.about("refresh", resource))
            .map(|_| ())
    }

    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        let named = |(attribute, type_name): &(String, &'static str)| {
            let names: Vec<Wanted> = resource
                .list(attribute)
                .iter()
                .map(|name| (*type_name, (*name).to_owned()))
                .collect();
            names
        };
        self.requires.iter().flat_map(named).collect()
    }

    fn provider(&self, _: &Cx<'_>, _: &Resource) -> Option<String> {
        Some(self.program.file_name()?.to_string_lossy().into_owned())
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(self.schema, "*")?;
        let answer = self.call(cx, &all, &self.about("list", &all))?;
        let listed = answer
            .resources
            .ok_or_else(|| EngineError::failed(&all, "the program told no `resources`"))?;
        Ok(listed
            .into_iter()
            .map(|found| (found.name, self.state(found.state)))
            .collect())
    }
}

fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(truth) => Value::Bool(truth),
        Json::String(text) => Value::Text(text),
        Json::Number(ref number) => number
            .as_i64()
            .map_or_else(|| Value::Data(Data(json.clone())), Value::Int),
        Json::Array(ref words) => {
            let texts: Option<Vec<String>> = words
                .iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect();
            texts.map_or_else(|| Value::Data(Data(json.clone())), Value::List)
        }
        Json::Object(_) => Value::Data(Data(json)),
    })
}
