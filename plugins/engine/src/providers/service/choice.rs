//! Which service manager manages a service.

use std::path::Path;

use super::{ServiceProvider, base, init, supervised, systemd};
use crate::error::{DescribeOperation as _, Result};
use crate::resource_type::BoundResource;

/// The provider named by the resource; otherwise systemd where it is running, and init scripts elsewhere.
pub fn choose_provider(resource: &BoundResource<'_>) -> Result<&'static dyn ServiceProvider> {
    Ok(match resource.get_text("provider") {
        Some("systemd") => &systemd::SystemdServiceProvider,
        Some("base") => &base::BaseServiceProvider,
        Some("supervised") => &supervised::SupervisedServiceProvider,
        Some(_) => &init::InitServiceProvider,
        None => {
            let found = resource.cx.system.metadata(Path::new("/run/systemd/system"));
            match found.during(resource, "looking for systemd")? {
                Some(_) => &systemd::SystemdServiceProvider,
                None => &init::InitServiceProvider,
            }
        }
    })
}
