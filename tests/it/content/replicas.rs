//! A cluster of three servers stores the content: a killed one loses nothing.

mod long {
    use std::io::Cursor;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    use muster_bus::content::ContentStore;
    use muster_tests::cluster::{Cluster, SERVER_NAMES};
    use muster_tests::organisation::{Organisation, connect};
    use muster_tests::{await_state, poll_until_ok};
    use muster_wire::catalog::content::{CHUNK_BYTES, ContentAddress};
    use muster_wire::stores::CONTENT_BUCKET;
    use muster_wire::token::ServiceRight;
    use tempfile::TempDir;
    use tokio::io::{AsyncRead, ReadBuf};

    use crate::content::fixture::{fetch, open_store, print_figures, random_bytes};

    const FILE_BYTES: usize = 64 * 1024 * 1024;
    const STREAM: &str = "KV_CONTENT";
    /// How long the cluster may take to elect a leader.
    const ELECTION_TIMEOUT: Duration = Duration::from_mins(1);

    /// Counts what is read.
    struct CountingReader<R> {
        inner: R,
        count: Arc<AtomicUsize>,
    }

    impl<R: AsyncRead + Unpin> AsyncRead for CountingReader<R> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let before = buffer.filled().len();
            let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
            self.count.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
            polled
        }
    }

    async fn find_leader(cluster: &Cluster) -> usize {
        poll_until_ok("the stream has a leader", ELECTION_TIMEOUT, async || {
            cluster.stream_leader(STREAM).await.ok_or("no leader")
        })
        .await
    }

    /// Puts a file, and kills a server when a quarter of it was read.
    async fn put_during_kill(
        cluster: &mut Cluster,
        store: ContentStore,
        seed: u64,
        victim: usize,
    ) -> ContentAddress {
        let bytes = random_bytes(seed, FILE_BYTES);
        let file = ContentAddress::of(&bytes);
        let count = Arc::<AtomicUsize>::default();
        let inner = Cursor::new(bytes);
        let reader = CountingReader { inner, count: Arc::clone(&count) };
        let started = Instant::now();
        let putting = tokio::spawn(async move { store.put_file(reader, Some(file)).await });
        let is_begun = || count.load(Ordering::Relaxed) > FILE_BYTES / 4;
        await_state("a quarter is read", is_begun).await;
        assert!(!putting.is_finished());
        cluster.kill(victim);
        assert_eq!(putting.await.unwrap().unwrap(), file);
        let took = started.elapsed();
        print_figures(&format!("put of 64 MiB with a killed server: {took:.1?}"));
        cluster.revive(victim).await;
        file
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a12_6_put_completes_though_a_server_is_killed_and_every_byte_is_there() {
        let organisation = Organisation::new(&["muster"]);
        let mut cluster = Cluster::start(&organisation).await;
        let compiler = organisation.service(ServiceRight::Compile, "compiler1");
        let bus = connect(&cluster, &compiler).await;
        let store = ContentStore::new(bus.bucket(CONTENT_BUCKET.name));
        let leader = find_leader(&cluster).await;
        let one = put_during_kill(&mut cluster, store.clone(), 1, leader).await;
        let own = SERVER_NAMES.iter().position(|name| *name == bus.server_name()).unwrap();
        let other = put_during_kill(&mut cluster, store, 2, own).await;

        // Each server in turn is missing, so that the bytes of every other one are read.
        let node = open_store(&cluster, &organisation.node("web1.example.net")).await;
        let scratch = TempDir::new().unwrap();
        for missing in 0..cluster.size() {
            cluster.kill(missing);
            for file in [one, other] {
                let fetched = fetch(&node, file, &scratch.path().join("file")).await;
                assert_eq!(fetched.fetched_chunks, FILE_BYTES / CHUNK_BYTES);
            }
            cluster.revive(missing).await;
        }
        let report = open_store(&cluster, &compiler).await.verify().await.unwrap();
        assert_eq!(report.defects, []);
        assert_eq!((report.files, report.chunks), (2, 2 * FILE_BYTES / CHUNK_BYTES));
    }
}
