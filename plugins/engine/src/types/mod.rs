//! The built-in resource types, one file per type.

pub mod cron;
pub mod exec;
pub mod file;
pub mod filebucket;
pub mod group;
pub mod host;
pub mod mailalias;
pub mod motd_fragment;
pub mod mount;
pub mod notify;
pub mod package;
mod purge_keys;
pub mod resources;
pub mod schedule;
pub mod service;
pub mod ssh_authorized_key;
pub mod sshkey;
pub mod stage;
pub mod tidy;
pub mod user;

use std::sync::Arc;

use crate::resource_type::ResourceType;

/// All built-in types, sorted by name.
pub fn builtin_types() -> Vec<Arc<dyn ResourceType>> {
    vec![
        Arc::new(cron::CronResourceType),
        Arc::new(exec::ExecResourceType),
        Arc::new(file::FileResourceType),
        Arc::new(filebucket::FilebucketResourceType),
        Arc::new(group::GroupResourceType),
        Arc::new(host::HOST_TYPE),
        Arc::new(mailalias::MAILALIAS_TYPE),
        Arc::new(motd_fragment::MotdFragmentResourceType),
        Arc::new(mount::MountResourceType),
        Arc::new(notify::NotifyResourceType),
        Arc::new(package::PackageResourceType),
        Arc::new(resources::ResourcesResourceType),
        Arc::new(schedule::ScheduleResourceType),
        Arc::new(service::ServiceResourceType),
        Arc::new(ssh_authorized_key::SshAuthorizedKeyResourceType),
        Arc::new(sshkey::SSHKEY_TYPE),
        Arc::new(stage::StageResourceType),
        Arc::new(tidy::TidyResourceType),
        Arc::new(user::UserResourceType),
    ]
}
