//! What is asked, of whom, and for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::filter::Filter;
use muster_wire::identity::{Identity, Name, NameError};
use serde_json::{Map, Value};

/// Whom a call means.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// These nodes. The call ends when all of them have answered.
    Nodes(BTreeSet<Identity>),
    /// Whoever matches. Nobody knows how many that are: a sliding window ends the call, unless [`Call::expect`] is set.
    Filter(Filter),
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The agent.
    pub agent: Name,
    /// The action.
    pub action: Name,
    /// The inputs, validated against the DDL by whoever has it.
    pub data: Map<String, Value>,
    /// Whom it means.
    pub aim: Aim,
    /// How long the action may take on a node; the action's own deadline when absent.
    pub timeout: Option<Duration>,
    /// How long to wait for answers at most. Should exceed `timeout`.
    pub wait: Duration,
    /// How long a node may take until it begins.
    pub ttl: Duration,
    /// With [`Aim::Filter`]: end after this many answers.
    pub expect: Option<usize>,
}

impl Call {
    /// A call with a ttl of 60 s that waits 30 s.
    pub fn new(agent: &str, action: &str, aim: Aim) -> Result<Self, NameError> {
        Ok(Self {
            agent: Name::parse(agent)?,
            action: Name::parse(action)?,
            data: Map::new(),
            aim,
            timeout: None,
            wait: Duration::from_secs(30),
            ttl: Duration::from_mins(1),
            expect: None,
        })
    }
}
