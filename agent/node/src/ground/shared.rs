//! Values that threads share. A panic cannot leave them inconsistent, because they are changed by single assignments; so a poisoned lock is used
//! like any other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A value with many readers that is replaced as a whole.
#[derive(Debug)]
pub struct SharedValue<T>(Arc<RwLock<Arc<T>>>);

impl<T> SharedValue<T> {
    pub fn new(value: T) -> Self {
        Arc::new(value).into()
    }

    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another handle to the same value: it is replaced for both.
    #[must_use]
    pub fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Replaces the value; readers that hold the old one keep it.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> From<Arc<T>> for SharedValue<T> {
    fn from(value: Arc<T>) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }
}

pub fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
