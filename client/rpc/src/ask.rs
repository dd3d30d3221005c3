//! Asking the fleet: from typed words to a [`Report`](crate::report::Report).
//!
//! ```text
//! words -> plan (schema, coercion, validation) -> fleet (connect, discover) -> rollout (call after call) -> gather
//! ```
//!
//! Everything that can be wrong about a request is found before the broker is spoken to. Nothing here draws results.

mod campaign;
mod confirm;
mod error;
mod external;
mod fetched;
mod fleet;
mod gather;
mod interrupt;
mod kept;
mod listen;
mod locate;
mod nearest;
mod plan;
mod progress;
mod recorder;
mod roll_call;
mod rollout;
mod secret;
mod target;
mod vouched;
mod words;

pub use campaign::RunNews;
pub use confirm::{Confirm, First, Occasion, agreed, is_terminal};
pub use error::AskError;
pub use fetched::Fetched;
pub use fleet::{Fleet, Found, Ping};
pub use kept::Kept;
pub use listen::Listening;
pub use locate::locate;
pub use nearest::nearest;
pub use plan::{Plan, Schemas};
pub use progress::Progress;
pub use recorder::Recorder;
pub use roll_call::RollCall;
pub use rollout::{News, Question};
pub use secret::read_secrets;
pub use target::Target;
pub use words::Words;
