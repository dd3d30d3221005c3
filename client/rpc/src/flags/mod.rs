//! Arguments that commands share.

pub mod approval;
pub mod deferred;
pub mod filters;
pub mod json;
pub mod lifetime;
pub mod list_form;
pub mod named_nodes;
pub mod org_directory;
pub mod output;
pub mod point_in_time;
pub mod request;
pub mod request_flags;
pub mod result_form;
pub mod rollout_flags;
pub mod seconds;
pub mod stores;
pub mod topics;
pub mod values;
