//! Sinks: deliver what happens in the fleet to other programs, each event at least once and in order.
//!
//! Nothing of the history is queued: [`EventSinks`] reads the index of the history on this host, and a small file per sink is how far it has read. Events of the
//! provisioner wait in a [`ProvisionQueue`], one file each. [`WebhookOptions`], [`run_program`] and [`DeadLetters`] are what other services deliver with.

mod counts;
mod dead_letters;
mod delivery;
mod delivery_error;
mod event;
mod event_filter;
mod follower;
mod options;
mod position;
mod program;
mod provision_queue;
mod service;
mod span;
mod syslog;
mod target;
mod webhook;

pub use counts::{EventSinkCounts, SinkStatus};
pub use dead_letters::{DeadLetters, cut_reason};
pub use delivery_error::{SinkDeliveryError, is_about_server};
pub use event::{SinkEvent, SinkEventKind};
pub use options::{SinkOptions, SinkTargetOptions, SinksOptions};
pub use program::{ProgramExit, run_program};
pub use provision_queue::{ProvisionQueue, QueueError};
pub use service::{EventSinks, EventSinksError, HistorySource, SinkEventSources};
pub use webhook::{WebhookOptions, WebhookUrl, WebhookUrlError};
