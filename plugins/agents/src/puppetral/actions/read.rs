//! `find`: the state of one resource, and whether Puppet manages it. `search`: the state of all resources of a type.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::puppetral::{
    PuppetralFindInput, PuppetralFindOutput, PuppetralSearchInput, PuppetralSearchOutput,
};
use serde_json::{Map, Value};

use crate::engine_error::from_engine_error;
use crate::puppetral::engines::{EngineFactory, check_foreign, read_only_for_own_types};
use crate::puppetral::{managed, properties};

pub(crate) fn find_resource(
    engines: &Arc<EngineFactory>,
    cx: &BlockingContext,
    input: PuppetralFindInput,
) -> Result<PuppetralFindOutput, ActionError> {
    let engine = engines.engine_for(&cx.system);
    let (type_name, name) = (input.type_name.to_lowercase(), input.name);
    // The name is passed to the program that provides the type, so the operator must have allowed the type.
    check_foreign(&engines.options, &engine, &type_name)?;
    let engine = read_only_for_own_types(engine, &type_name);
    let state = engine.find_state(&type_name, &name).map_err(from_engine_error)?;
    let resource = engine.empty_resource(&type_name, &name).map_err(from_engine_error)?;
    let managed = managed::look_up_managed(&*cx.system, &engines.options, &resource)?;
    Ok(PuppetralFindOutput {
        properties: properties::declared_properties(&engine, &type_name, &state.values),
        managed: managed.into(),
        type_name,
        name,
    })
}

pub(crate) fn search_resources(
    engines: &Arc<EngineFactory>,
    cx: &BlockingContext,
    PuppetralSearchInput { type_name }: PuppetralSearchInput,
) -> Result<PuppetralSearchOutput, ActionError> {
    let engine = engines.engine_for(&cx.system);
    let type_name = type_name.to_lowercase();
    let engine = read_only_for_own_types(engine, &type_name);
    let found = engine.list_instances(&type_name).map_err(from_engine_error)?;
    let declared = |values| properties::declared_properties(&engine, &type_name, values).into();
    let resources: Map<String, Value> =
        found.iter().map(|(title, values)| (title.clone(), declared(values))).collect();
    Ok(PuppetralSearchOutput { count: resources.len(), type_name, resources })
}
