//! End to end, on a real nats-server: one binary, because each one links everything.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests end by panic")]

mod answerer;
mod approvals;
mod architecture;
mod ask;
mod authority;
mod bundles;
mod coverage;
mod demo;
mod discovery;
mod docs;
mod doctor;
mod external;
mod faults;
mod floods;
mod lifecycle;
mod listen;
mod longrun;
mod misbehaving;
mod monitoring;
mod moving;
mod newcomers;
mod packaging;
mod parity;
mod permits;
mod policies;
mod printed;
mod provisioning;
mod puppet;
mod refreshes;
mod resources;
mod restarts;
mod rollouts;
mod runs;
mod sealed;
mod secrets;
mod shaping;
mod sources;
mod stats;
mod statuses;
mod supply;
mod timeouts;
mod trust;
