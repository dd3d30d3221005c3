//! Assumed results of a node's data sources. Pure functions.

use muster_filter::{AssumedOutput, DataLookup, DataLookupResult, KnownLookups};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

use crate::policy::error::PolicyError;

/// Output values by lookup: `"puppet()" = { enabled = false }`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Map<String, Value>>")]
pub struct AssumedDataValues(BTreeMap<DataLookup, Map<String, Value>>);

impl TryFrom<BTreeMap<String, Map<String, Value>>> for AssumedDataValues {
    type Error = muster_filter::FilterError;

    fn try_from(values: BTreeMap<String, Map<String, Value>>) -> Result<Self, Self::Error> {
        let entry = |(lookup, outputs): (String, _)| Ok((lookup.parse()?, outputs));
        values.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }
}

impl AssumedDataValues {
    /// Adds one assumed value, such as `puppet().enabled=false`.
    pub fn with_value(mut self, text: &str) -> Result<Self, PolicyError> {
        let assumed: AssumedOutput =
            text.parse().map_err(|source| PolicyError::Data(text.to_owned(), source))?;
        let outputs = self.0.entry(assumed.lookup).or_default();
        outputs.insert(assumed.output, assumed.value);
        Ok(self)
    }

    /// Merges with others, which take precedence.
    #[must_use]
    pub fn merged_with(mut self, others: &Self) -> Self {
        for (lookup, outputs) in &others.0 {
            let known = self.0.entry(lookup.clone()).or_default();
            known.extend(outputs.clone());
        }
        self
    }

    /// Converts to the form that policy evaluation takes.
    pub fn to_lookup_values(&self) -> KnownLookups {
        let mut known = KnownLookups::default();
        for (lookup, outputs) in &self.0 {
            known.insert(lookup.clone(), DataLookupResult::Values(outputs.clone()));
        }
        known
    }
}
