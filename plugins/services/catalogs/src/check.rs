//! Decides whether a node has to be compiled again. Pure, but for files of the code that are read.

use std::fmt;
use std::time::Duration;

use muster_wire::Millis;

use crate::inputs::{CodeError, CompileInputs, InputName, InputSources};
use crate::record::CompileRecord;

/// Inputs that are named in a cause.
const NAMED_INPUTS: usize = 3;

/// Why a node has to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileCause {
    /// It never was.
    New,
    /// It belongs to another environment now.
    Environment { from: String, to: String },
    /// It has another key, for which the secrets of its catalog are not encrypted.
    NodeKey,
    /// What its last compile read is different now.
    Inputs(Vec<InputName>),
    /// Its last compile read what cannot be compared, long ago.
    Age,
}

impl fmt::Display for CompileCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("it was never compiled"),
            Self::Environment { from, to } => {
                write!(f, "it was in environment {from}, and is in {to}")
            }
            Self::NodeKey => f.write_str("the node has a new key"),
            Self::Age => {
                f.write_str("its catalog depends on the time, a random number or a program")
            }
            Self::Inputs(changed) => {
                let named: Vec<String> =
                    changed.iter().take(NAMED_INPUTS).map(ToString::to_string).collect();
                write!(f, "changed: {}", named.join(", "))?;
                match changed.len().saturating_sub(NAMED_INPUTS) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
        }
    }
}

/// A node as it is now.
#[derive(Debug, Clone, Copy)]
pub struct CurrentNode<'a> {
    pub environment: &'a str,
    pub key: &'a str,
    pub now: Millis,
    /// After which time a catalog that is not reproducible is compiled again.
    pub max_age: Option<Duration>,
}

/// Why the node has to be compiled; `None` if its last compile would have the same result.
pub fn find_cause(
    last: Option<(&CompileRecord, &CompileInputs)>,
    node: &CurrentNode<'_>,
    sources: &InputSources<'_>,
) -> Result<Option<CompileCause>, CodeError> {
    let Some((record, inputs)) = last else { return Ok(Some(CompileCause::New)) };
    if record.state.environment != node.environment {
        let (from, to) = (record.state.environment.clone(), node.environment.to_owned());
        return Ok(Some(CompileCause::Environment { from, to }));
    }
    if record.state.node_key != node.key {
        return Ok(Some(CompileCause::NodeKey));
    }
    let changed = inputs.changes(sources)?;
    if !changed.is_empty() {
        return Ok(Some(CompileCause::Inputs(changed.into_iter().cloned().collect())));
    }
    let is_old =
        |age: Duration| u128::from(node.now.saturating_sub(record.compiled_at)) >= age.as_millis();
    let is_expired = !record.externals.is_empty() && node.max_age.is_some_and(is_old);
    Ok(is_expired.then_some(CompileCause::Age))
}
