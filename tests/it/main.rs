//! End to end, on a real nats-server: one binary, because each one links everything.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests end by panic")]

mod architecture;
mod ask;
mod demo;
mod desk;
mod discovery;
mod docs;
mod lifecycle;
mod longrun;
mod misbehaving;
mod resources;
mod rollouts;
mod shaping;
mod statuses;
mod trust;
