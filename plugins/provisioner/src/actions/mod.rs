//! The actions of the agent `provisioner`.

mod control;
mod status;

pub(crate) use control::{
    ProvisionerPauseAction, ProvisionerResumeAction, ProvisionerRetireAction,
    ProvisionerRetryAction,
};
pub(crate) use status::ProvisionerStatusAction;
