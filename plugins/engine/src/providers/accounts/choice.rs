//! Which implementation manages users and groups.

use std::path::Path;

use super::{AccountProvider, files, shadow_utils};
use crate::resource_type::ResourceContext;

pub fn choose_provider<'a>(cx: &ResourceContext<'a>) -> Box<dyn AccountProvider + 'a> {
    let (system, cancel) = (cx.system, cx.cancel.clone());
    if system.root() == Path::new("/") {
        Box::new(shadow_utils::ShadowUtilsProvider { system, cancel })
    } else {
        Box::new(files::FileAccountProvider { system })
    }
}
