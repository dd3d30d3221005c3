//! The actions of the agent `provisioner`.

pub(crate) mod control;
pub(crate) mod status;
