//! The built-in resource types, one file per type.

pub mod cron;
pub mod exec;
pub mod file;
pub mod filebucket;
pub mod group;
pub mod host;
pub mod mailalias;
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

use crate::resource_type::ResourceType;

/// All built-in types, sorted by name.
pub fn builtin_types() -> Vec<Box<dyn ResourceType>> {
    vec![
        Box::new(cron::CronResourceType),
        Box::new(exec::ExecResourceType),
        Box::new(file::FileResourceType),
        Box::new(filebucket::FilebucketResourceType),
        Box::new(group::GroupResourceType),
        Box::new(host::HOST_TYPE),
        Box::new(mailalias::MAILALIAS_TYPE),
        Box::new(mount::MountResourceType),
        Box::new(notify::NotifyResourceType),
        Box::new(package::PackageResourceType),
        Box::new(resources::ResourcesResourceType),
        Box::new(schedule::ScheduleResourceType),
        Box::new(service::ServiceResourceType),
        Box::new(ssh_authorized_key::SshAuthorizedKeyResourceType),
        Box::new(sshkey::SSHKEY_TYPE),
        Box::new(stage::StageResourceType),
        Box::new(tidy::TidyResourceType),
        Box::new(user::UserResourceType),
    ]
}
