//! Pages that another service of this host answers, on the sockets of this API and under its limits.

use std::sync::{Arc, OnceLock};

use muster_http::{HttpRequest, HttpResponse};

/// Pages of another service.
pub trait MountedPages: std::fmt::Debug + Send + Sync {
    /// Whether one of these pages is at the path.
    fn has_page(&self, path: &str) -> bool;

    /// Answers a request. May block.
    fn answer(&self, request: &HttpRequest) -> HttpResponse;
}

/// Where pages are mounted. They are set when the services that they read have started.
#[derive(Debug, Clone, Default)]
pub struct PageMount(Arc<OnceLock<Arc<dyn MountedPages>>>);

impl PageMount {
    /// Mounts pages; only the first call has an effect.
    pub fn set(&self, pages: Arc<dyn MountedPages>) {
        let _ = self.0.set(pages);
    }

    pub(super) fn pages_at(&self, path: &str) -> Option<Arc<dyn MountedPages>> {
        self.0.get().filter(|pages| pages.has_page(path)).cloned()
    }
}
