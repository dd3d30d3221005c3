//! Adapts an external program to the engine's type trait: each read, change and refresh is one program call.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::Command;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::description::{ExternalTypeDescription, MissingPropertyError, leak_schema};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
use crate::schema::{TypeSchema, leak_text};

const PROTOCOL_VERSION: &str = "muster/type/v1";
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct ExternalResourceType {
    schema: &'static TypeSchema,
    program: PathBuf,
    timeout: Duration,
    refreshes: bool,
    /// Attributes whose values name resources of a type that come first.
    requires: Vec<(String, &'static str)>,
}

/// The request on the program's standard input.
#[derive(Serialize)]
struct ExternalProviderRequest<'a> {
    protocol: &'static str,
    op: &'static str,
    #[serde(rename = "type")]
    type_name: &'a str,
    name: &'a str,
    desired: &'a ResourceValues,
    #[serde(skip_serializing_if = "Option::is_none")]
    property: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a ResourceValues>,
}

/// The response on the program's standard output.
#[derive(Deserialize)]
struct ExternalProviderResponse {
    error: Option<String>,
    state: Option<Map<String, Json>>,
    resources: Option<Vec<ExternalProviderInstance>>,
    #[serde(default)]
    log: Vec<String>,
}

#[derive(Deserialize)]
struct ExternalProviderInstance {
    name: String,
    state: Map<String, Json>,
}

impl ExternalResourceType {
    pub(super) fn new(
        name: &str,
        description: &ExternalTypeDescription,
        program: PathBuf,
    ) -> Result<Self, MissingPropertyError> {
        let requires = description.attributes.iter().filter_map(|(name, attribute)| {
            Some((name.clone(), leak_text(attribute.requires.as_deref()?)))
        });
        Ok(Self {
            schema: leak_schema(name, description)?,
            program,
            timeout: Duration::from_secs(description.timeout),
            refreshes: description.refreshes,
            requires: requires.collect(),
        })
    }

    fn run_provider(
        &self,
        resource: &BoundResource<'_>,
        request: &ExternalProviderRequest<'_>,
    ) -> Result<ExternalProviderResponse> {
        let cx = resource.cx;
        let failed = |problem: String| EngineError::failed(resource, problem);
        let program = self.program.display();
        let mut command =
            Command::configured([self.program.display().to_string(), request.op.to_owned()]);
        command.stdin = serde_json::to_vec(request).map_err(|error| failed(error.to_string()))?;
        command.cwd = self.program.parent().map(Path::to_owned);
        command.timeout = Some(self.timeout);
        command.output_limit = MAX_RESPONSE_BYTES;
        command.cancel = cx.cancel.clone();
        let operation = format!("running `{program} {}`", request.op);
        let output = cx.system.run_command(&command).during(resource, operation)?;
        if !output.is_success() {
            let (code, text) = (output.code, output.combined_text());
            let last = text.trim().lines().next_back().unwrap_or_default();
            return Err(failed(format!("{program} ended with code {code}: {last}")));
        }
        let response = serde_json::from_slice(&output.stdout);
        let response: ExternalProviderResponse = response.map_err(|error| {
            failed(format!("{program} did not print exactly one JSON object: {error}"))
        })?;
        response.log.iter().for_each(|line| cx.log_line(line));
        match response.error {
            Some(problem) => Err(failed(problem)),
            None => Ok(response),
        }
    }

    fn build_request<'a>(
        &'a self,
        op: &'static str,
        resource: &'a Resource,
    ) -> ExternalProviderRequest<'a> {
        ExternalProviderRequest {
            protocol: PROTOCOL_VERSION,
            op,
            type_name: self.schema.type_name,
            name: &resource.name,
            desired: &resource.values,
            property: None,
            state: None,
        }
    }

    fn parse_state(&self, found: Map<String, Json>) -> ResourceValues {
        let is_property =
            |name: &str| self.schema.properties().any(|property| property.name == name);
        let known = found.into_iter().filter(|(name, _)| is_property(name));
        known.filter_map(|(name, json)| Some((name, ResourceValue::from_json(json)?))).collect()
    }
}

impl ResourceType for ExternalResourceType {
    fn schema(&self) -> &'static TypeSchema {
        self.schema
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let response = self.run_provider(resource, &self.build_request("read", resource))?;
        let found = response
            .state
            .ok_or_else(|| EngineError::failed(resource, "the response has no `state`"))?;
        Ok(ResourceState { values: self.parse_state(found) })
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let request = ExternalProviderRequest {
            property: Some(&change.property),
            state: Some(&plan.state.values),
            ..self.build_request("apply", &plan.resource)
        };
        self.run_provider(&cx.bind(&plan.resource), &request).map(|_| ())
    }

    fn supports_refresh(&self) -> bool {
        self.refreshes
    }

    fn refresh(&self, resource: &BoundResource<'_>) -> Result<()> {
        self.run_provider(resource, &self.build_request("refresh", resource)).map(|_| ())
    }

    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let named = |(attribute, type_name): &(String, &'static str)| {
            let names = resource.get_list(attribute).into_iter();
            names.map(|name| (*type_name, name.to_owned())).collect::<Vec<_>>()
        };
        self.requires.iter().flat_map(named).collect()
    }

    fn provider_name(&self, _: &BoundResource<'_>) -> Option<String> {
        Some(self.program.file_name()?.to_string_lossy().into_owned())
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(self.schema, "*")?;
        let response = self.run_provider(&cx.bind(&all), &self.build_request("list", &all))?;
        let listed = response
            .resources
            .ok_or_else(|| EngineError::failed(&all, "the response has no `resources`"))?;
        Ok(listed.into_iter().map(|found| (found.name, self.parse_state(found.state))).collect())
    }
}
