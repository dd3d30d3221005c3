//! What a daemon does beside answering requests: the plugins that it offers, central services, and background tasks.

pub(crate) mod again_tasks;
pub mod agents;
pub(crate) mod broker_follow;
pub(crate) mod central;
pub(crate) mod change_watch;
pub(crate) mod check_tasks;
pub(crate) mod clone_tasks;
pub(crate) mod events;
pub mod external;
pub(crate) mod history_tasks;
pub(crate) mod login;
pub(crate) mod lost;
pub(crate) mod metrics;
pub(crate) mod presence;
pub mod registration;
pub(crate) mod release_tasks;
pub(crate) mod upkeep;
