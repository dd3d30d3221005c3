//! The open connections of a server. When there are too many, the oldest one that is not admitted is closed, so that slow clients cannot block others.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::task::{AbortHandle, JoinSet};

const WAITING: u8 = 0;
const ADMITTED: u8 = 1;
const CLOSED: u8 = 2;

/// Whether a connection still counts as one of a client that may be hostile.
#[derive(Debug, Clone, Default)]
pub struct ConnectionAdmission(Arc<AtomicU8>);

impl ConnectionAdmission {
    /// Admits the connection: newer ones do not close it any more. `false` if it is closed already.
    pub fn admit(&self) -> bool {
        self.advance(ADMITTED) || self.0.load(Ordering::Acquire) == ADMITTED
    }

    fn close(&self) -> bool {
        self.advance(CLOSED)
    }

    fn advance(&self, to: u8) -> bool {
        self.0.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }
}

/// The connections of a server. They end when this is dropped.
#[derive(Debug)]
pub struct HttpConnections {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<(AbortHandle, ConnectionAdmission)>,
    max_waiting: usize,
}

impl HttpConnections {
    /// A server with at most this many connections that are not admitted.
    pub fn new(max_waiting: usize) -> Self {
        Self { tasks: JoinSet::new(), oldest_first: VecDeque::new(), max_waiting }
    }

    pub fn spawn<F>(&mut self, serve: impl FnOnce(ConnectionAdmission) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first
            .retain(|(connection, admission)| !connection.is_finished() && admission.is_waiting());
        while self.oldest_first.len() >= self.max_waiting
            && let Some((oldest, admission)) = self.oldest_first.pop_front()
        {
            if admission.close() {
                oldest.abort();
            }
        }
        let admission = ConnectionAdmission::default();
        let task = self.tasks.spawn(serve(admission.clone()));
        self.oldest_first.push_back((task, admission));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn oldest_connection_that_is_not_admitted_is_closed() {
        let (ended, mut receiver) = mpsc::unbounded_channel();
        let mut connections = HttpConnections::new(2);
        for number in 0..4 {
            let ended = ended.clone();
            connections.spawn(|admission| {
                if number == 0 {
                    assert!(admission.admit());
                }
                async move {
                    let _guard = NotifyOnDrop(number, ended);
                    std::future::pending::<()>().await;
                }
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(receiver.recv().await, Some(1));
        assert!(receiver.try_recv().is_err());
    }

    struct NotifyOnDrop(u8, mpsc::UnboundedSender<u8>);

    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }
}
