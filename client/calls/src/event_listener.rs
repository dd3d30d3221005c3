//! Receives the events of the fleet, verified. The broker stores no events: those of before the subscription are not received.

use std::sync::Arc;

use muster_base::unix_millis_now;
use muster_bus::{BusEvent, BusSubscription, ConnectionDisturbance, ConnectionMark};
use muster_wire::event::FleetEvent;
use muster_wire::sign::{MessageRefusal, open_event};
use muster_wire::subject::{ALL_EVENTS, EventAddress};
use tokio::sync::broadcast;

use crate::client::Client;
use crate::client_inner::ClientInner;
use crate::error::Result;

/// A subscription to all events.
#[derive(Debug)]
pub struct EventListener {
    client: Arc<ClientInner>,
    messages: BusSubscription,
    bus_events: broadcast::Receiver<BusEvent>,
    connection_mark: ConnectionMark,
}

/// What a listener receives.
#[derive(Debug)]
pub enum EventArrival {
    /// An event.
    Event(Box<FleetEvent>),
    /// A message that is not valid, and why.
    Refused(MessageRefusal),
    /// Events may have been lost until now. After a lost connection this arrives when the subscription is active again.
    Gap(ConnectionDisturbance),
}

impl Client {
    /// Subscribes to the events of the fleet. Receives every event that is published after this returns.
    pub async fn listen_for_events(&self) -> Result<EventListener> {
        let client = Arc::clone(&self.inner);
        let bus_events = client.bus.subscribe_events();
        let connection_mark = client.bus.mark_connection();
        let messages = client.bus.subscribe(ALL_EVENTS).await?;
        client.bus.confirm_delivery().await?;
        Ok(EventListener { client, messages, bus_events, connection_mark })
    }
}

impl EventListener {
    /// Returns what arrives next; `None` when the connection is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<EventArrival> {
        loop {
            tokio::select! {
                message = self.messages.next() => {
                    let message = message?;
                    // Only subjects that no node may publish are not parsed.
                    if let Some(address) = EventAddress::parse(message.subject()) {
                        return Some(self.open_event(message.payload(), &address));
                    }
                }
                event = self.bus_events.recv() => match event {
                    Ok(BusEvent::Connected | BusEvent::SlowConsumer)
                    | Err(broadcast::error::RecvError::Lagged(_)) => {
                        if let Some(disturbance) = self.take_disturbance() {
                            return Some(EventArrival::Gap(disturbance));
                        }
                    }
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            }
        }
    }

    fn open_event(&self, payload: &[u8], address: &EventAddress) -> EventArrival {
        let (trust, tokens) = (self.client.trust(), &self.client.tokens);
        match open_event(payload, address, &trust, tokens, unix_millis_now()) {
            Ok(event) => EventArrival::Event(Box::new(event)),
            Err(refusal) => EventArrival::Refused(refusal),
        }
    }

    /// Whether events may have been lost since the subscription began, or since the last gap.
    fn take_disturbance(&mut self) -> Option<ConnectionDisturbance> {
        let now = self.client.bus.mark_connection();
        let disturbance = self.client.bus.disturbed_since(self.connection_mark)?;
        self.connection_mark = now;
        Some(disturbance)
    }
}
