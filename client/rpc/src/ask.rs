//! Asking the fleet: from typed words to a [`Report`](crate::report::Report).
//!
//! ```text
//! words -> plan (schema, coercion, validation) -> fleet (connect, discover, call) -> gather (events to a report)
//! ```
//!
//! Everything that can be wrong about a request is found before the broker is spoken to. Nothing here draws results.

mod error;
mod fleet;
mod gather;
mod nearest;
mod plan;
mod progress;
mod secret;
mod target;
mod words;

pub use error::AskError;
pub use fleet::{Fleet, Found, Question};
pub use plan::{Plan, Schemas};
pub use progress::Progress;
pub use secret::read_secrets;
pub use target::Target;
pub use words::Words;
