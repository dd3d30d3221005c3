//! Receives the events of the fleet, verified. The broker stores no events: those of before the subscription are not received.

use std::sync::Arc;

use muster_base::unix_millis_now;
use muster_bus::{BusSubscription, ConnectionDisturbance, ConnectionMark};
use muster_wire::event::FleetEvent;
use muster_wire::sign::{MessageRefusal, open_event};
use muster_wire::subject::{ALL_EVENTS, EventAddress};

use crate::client::Client;
use crate::client_inner::ClientInner;
use crate::error::Result;

/// A subscription to all events.
#[derive(Debug)]
pub struct EventListener {
    client: Arc<ClientInner>,
    messages: BusSubscription,
    connection_mark: ConnectionMark,
}

impl Client {
    /// Subscribes to the events of the fleet. Receives every event that is published after this returns.
    pub async fn listen_for_events(&self) -> Result<EventListener> {
        let client = Arc::clone(&self.inner);
        let connection_mark = client.bus.mark_connection();
        let messages = client.bus.subscribe(ALL_EVENTS).await?;
        client.bus.confirm_delivery().await?;
        Ok(EventListener { client, messages, connection_mark })
    }
}

impl EventListener {
    /// Returns the next event, or why a message was refused; `None` when the connection is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<FleetEvent, MessageRefusal>> {
        loop {
            let message = self.messages.next().await?;
            // Only subjects that no node may publish are not parsed.
            let Some(address) = EventAddress::parse(message.subject()) else {
                continue;
            };
            let (trust, tokens) = (self.client.trust(), &self.client.tokens);
            return Some(open_event(
                message.payload(),
                &address,
                &trust,
                tokens,
                unix_millis_now(),
            ));
        }
    }

    /// Whether events may have been lost since the subscription began.
    pub fn disturbance(&self) -> Option<ConnectionDisturbance> {
        self.client.bus.disturbed_since(self.connection_mark)
    }
}
