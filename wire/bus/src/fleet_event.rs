//! Publishes an event about the fleet, signed by its sender.

use muster_wire::Millis;
use muster_wire::event::FleetEvent;
use muster_wire::identity::{NameError, SubjectName};
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, Signer, sign_envelope};
use muster_wire::subject::EventAddress;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Bus, BusError, Bytes};

/// Why an event was not published.
#[derive(Debug, thiserror::Error)]
pub enum EventPublishError {
    /// The kind is not a valid name.
    #[error("the kind of the event is not valid")]
    Kind(#[from] NameError),
    /// It cannot be signed.
    #[error("cannot sign the event")]
    Sign(#[from] EnvelopeSignError),
    /// The broker did not receive it.
    #[error("the broker did not receive the event")]
    Bus(#[from] BusError),
}

/// An event that is to be published.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Its kind, such as `node_missing`.
    pub kind: &'static str,
    /// What happened, in a sentence.
    pub text: String,
    /// Its values.
    pub data: Map<String, Value>,
    /// When it happened.
    pub time: Millis,
}

impl Bus {
    /// Signs an event and publishes it.
    pub async fn publish_event(
        &self,
        signer: &Signer,
        event: NewEvent,
    ) -> Result<(), EventPublishError> {
        let NewEvent { kind, text, data, time } = event;
        let (kind, sender) = (SubjectName::parse(kind)?, signer.identity().clone());
        let event = FleetEvent {
            id: Uuid::now_v7(),
            sender: sender.clone(),
            kind: kind.clone(),
            text: text.into(),
            data,
            time,
        };
        let sealed = sign_envelope(EnvelopeKind::Event, &event, signer)?;
        self.publish(&EventAddress { kind, node: sender }.subject(), Bytes::from(sealed)).await?;
        Ok(())
    }
}
