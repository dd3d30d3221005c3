//! Files are stored once, fetched whole, and continued after an interruption.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bus::content::{ContentError, FetchedFile};
use muster_tests::fault_proxy::FaultProxy;
use muster_wire::catalog::content::{CHUNK_BYTES, ContentAddress};

use super::fixture::{ContentFixture, SIZE_LIMIT, fetch, put, random_bytes, requested_chunk};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_files_of_all_sizes_are_stored_and_fetched() {
    let fixture = ContentFixture::new().await;
    let (compiler, node) = (fixture.compiler().await, fixture.node().await);
    let mut expected = BTreeMap::new();
    let (one, three) = (CHUNK_BYTES, 3 * CHUNK_BYTES);
    for size in [0, 1, one - 1, one, one + 1, three, three + 10] {
        let bytes = random_bytes(size as u64, size);
        assert!(!compiler.has(ContentAddress::of(&bytes)).await.unwrap());
        let file = put(&compiler, &bytes).await;
        assert!(node.has(file).await.unwrap());
        let path = fixture.path(&file.to_string());
        let fetched = fetch(&node, file, &path).await;
        let chunks = if size > one { size.div_ceil(one) } else { 0 };
        let size = size as u64;
        assert_eq!(fetched, FetchedFile { bytes: size, fetched_chunks: chunks, kept_chunks: 0 });
        expected.insert(file, (size, chunks));
        if let Some(limit) = size.checked_sub(1) {
            let refused = node.get_file(file, &fixture.path("refused"), limit).await;
            assert!(matches!(refused, Err(ContentError::TooLarge { .. })), "{refused:?}");
        }
    }
    let listed = compiler.list().await.unwrap().into_iter();
    let listed: BTreeMap<_, _> =
        listed.map(|stored| (stored.file, (stored.bytes, stored.chunks))).collect();
    assert_eq!(listed, expected);
    let report = compiler.verify().await.unwrap();
    assert_eq!((report.files, report.chunks, report.defects), (7, 9, vec![]));
    assert_eq!(fixture.file_names().len(), 7, "nothing temporary is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_second_put_writes_nothing_and_files_share_chunks() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    let [a, b, c, d] = [1, 2, 3, 4].map(|seed| random_bytes(seed, CHUNK_BYTES));
    let first = [&a[..], &b, &c].concat();
    let file = put(&compiler, &first).await;
    assert_eq!(fixture.stream_state("last_seq").await, 4, "three chunks, and the file");
    // Another chunk, twice in this file, and the file.
    put(&compiler, &[&a[..], &b, &d, &d].concat()).await;
    assert_eq!(fixture.stream_state("last_seq").await, 6);
    let other = fixture.compiler().await;
    put(&compiler, &first).await;
    put(&other, &first).await;
    // What is not read has no other address.
    let another = fixture.compiler().await;
    for store in [&compiler, &other, &another] {
        assert_eq!(store.put_file(tokio::io::empty(), Some(file)).await.unwrap(), file);
    }
    assert_eq!(fixture.stream_state("last_seq").await, 6);
    // Old entries are written again, so that they become young.
    let refreshing = fixture.compiler().await.refreshing_after(Duration::ZERO);
    put(&refreshing, &first).await;
    let (writes, keys) =
        (fixture.stream_state("last_seq").await, fixture.stream_state("messages").await);
    assert_eq!((writes, keys), (10, 6));
    fetch(&fixture.node().await, file, &fixture.path("first")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_compilers_that_store_the_same_file_write_each_key_once() {
    let fixture = ContentFixture::new().await;
    let (one, other) = (fixture.compiler().await, fixture.compiler().await);
    let bytes = random_bytes(1, 20 * CHUNK_BYTES);
    let (file, same) = tokio::join!(put(&one, &bytes), put(&other, &bytes));
    assert_eq!(file, same);
    let (writes, keys) =
        (fixture.stream_state("last_seq").await, fixture.stream_state("messages").await);
    assert_eq!((writes, keys), (21, 21));
    fetch(&fixture.node().await, file, &fixture.path("file")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_changed_file_gets_no_entry() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    for size in [10, CHUNK_BYTES + 10] {
        let bytes = random_bytes(1, size);
        let (expected, found) = (ContentAddress::of(b"other"), ContentAddress::of(&bytes));
        let refused = compiler.put_file(bytes.as_slice(), Some(expected)).await.unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, ContentError::Changed { .. }), "{refused:?}");
        assert!([expected, found].iter().all(|file| message.contains(&file.to_string())));
    }
    assert_eq!(compiler.list().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_interrupted_fetch_asks_only_for_chunks_that_it_lacks() {
    let fixture = ContentFixture::new().await;
    let bytes = random_bytes(1, 10 * CHUNK_BYTES + 100);
    let file = put(&fixture.compiler().await, &bytes).await;
    // Of the eleven chunks, the fourth was damaged, the seventh is a hole, and the ninth is incomplete.
    let mut partial = bytes.clone();
    partial[3 * CHUNK_BYTES + 77] ^= 1;
    partial[6 * CHUNK_BYTES..7 * CHUNK_BYTES].fill(0);
    partial.truncate(8 * CHUNK_BYTES + 5);
    std::fs::write(fixture.path("file.part"), partial).unwrap();
    let (proxy, mut published) = FaultProxy::start_tapped(&fixture.server).await;
    let node = fixture.node_behind(&proxy).await;
    let fetched = fetch(&node, file, &fixture.path("file")).await;
    assert_eq!((fetched.fetched_chunks, fetched.kept_chunks), (5, 6));
    let mut asked = Vec::new();
    while let Ok(message) = published.try_recv() {
        asked.extend(requested_chunk(&message));
    }
    let chunks: Vec<ContentAddress> = bytes.chunks(CHUNK_BYTES).map(ContentAddress::of).collect();
    let lacking = [3, 6, 8, 9, 10].map(|index| chunks[index]);
    assert_eq!(asked, lacking);
    assert_eq!(fixture.file_names(), ["file"]);
    // What is left of another file is not used.
    std::fs::write(fixture.path("file.part"), random_bytes(2, 20 * CHUNK_BYTES)).unwrap();
    assert_eq!(fetch(&node, file, &fixture.path("file")).await.kept_chunks, 0);
}

mod long {
    use std::path::Path;
    use std::time::Instant;

    use muster_bus::content::ContentStore;
    use muster_tests::fault_proxy::NetworkFault;
    use tokio::fs::File;

    use super::*;
    use crate::content::fixture::print_figures;

    const FILE_BYTES: usize = 200 * 1024 * 1024;
    const CHUNKS: usize = FILE_BYTES / CHUNK_BYTES;

    fn print_throughput(what: &str, started: Instant) {
        let seconds = started.elapsed().as_secs_f64();
        let rate = 200.0 / seconds;
        print_figures(&format!("{what} 200 MiB in {seconds:.2} s, {rate:.0} MiB/s"));
    }

    async fn put_path(store: &ContentStore, path: &Path) -> ContentAddress {
        store.put_file(File::open(path).await.unwrap(), None).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a12_6_200_mib_are_stored_fetched_and_continued() {
        let fixture = ContentFixture::new().await;
        let compiler = fixture.compiler().await;
        let source = fixture.path("source");
        std::fs::write(&source, random_bytes(1, FILE_BYTES)).unwrap();
        let started = Instant::now();
        let file = put_path(&compiler, &source).await;
        print_throughput("put", started);
        let writes = fixture.stream_state("last_seq").await;
        assert_eq!(writes, CHUNKS as u64 + 1);
        let started = Instant::now();
        assert_eq!(put_path(&fixture.compiler().await, &source).await, file);
        print_throughput("put again", started);
        assert_eq!(fixture.stream_state("last_seq").await, writes);

        let (node, path) = (fixture.node().await, fixture.path("target"));
        let started = Instant::now();
        let fetched = node.get_file(file, &path, SIZE_LIMIT).await.unwrap();
        print_throughput("get", started);
        assert_eq!((fetched.fetched_chunks, fetched.bytes), (CHUNKS, FILE_BYTES as u64));
        assert_eq!(ContentAddress::of(&std::fs::read(&path).unwrap()), file);

        // A fetch ends in the middle, as when its process is killed.
        let (proxy, mut published) = FaultProxy::start_tapped(&fixture.server).await;
        let (node, path) = (fixture.node_behind(&proxy).await, fixture.path("continued"));
        let interrupted = path.clone();
        let fetching =
            tokio::spawn(async move { node.get_file(file, &interrupted, SIZE_LIMIT).await });
        let mut asked = 0;
        while asked < CHUNKS / 2 {
            asked += usize::from(requested_chunk(&published.recv().await.unwrap()).is_some());
        }
        fetching.abort();
        assert!(fetching.await.unwrap_err().is_cancelled());
        assert!(!path.exists());

        let (proxy, mut published) = FaultProxy::start_tapped(&fixture.server).await;
        let node = fixture.node_behind(&proxy).await;
        let started = Instant::now();
        let fetched = fetch(&node, file, &path).await;
        print_throughput("get the rest of", started);
        let mut asked = BTreeSet::new();
        while let Ok(message) = published.try_recv() {
            asked.extend(requested_chunk(&message));
        }
        assert_eq!(asked.len(), fetched.fetched_chunks);
        assert_eq!(fetched.kept_chunks + fetched.fetched_chunks, CHUNKS);
        // Half of the chunks were asked for, and at most 32 of them and one more were not written yet.
        assert!(fetched.kept_chunks >= CHUNKS / 2 - 33, "{fetched:?}");
        assert!(fetched.fetched_chunks > 0, "{fetched:?}");
    }

    /// At this rate, sixteen chunks that were asked for at once would exceed the timeout of an answer, and be asked for again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a12_6_each_chunk_is_asked_for_once_over_a_slow_link() {
        let fixture = ContentFixture::new().await;
        let bytes = random_bytes(1, 16 * CHUNK_BYTES);
        let file = put(&fixture.compiler().await, &bytes).await;
        let (proxy, mut published) = FaultProxy::start_tapped(&fixture.server).await;
        let (delay, bytes_per_second) = (Duration::from_millis(20), 1_000_000);
        proxy.inject(NetworkFault::SlowLink { delay, bytes_per_second });
        let node = fixture.node_behind(&proxy).await;
        let started = Instant::now();
        fetch(&node, file, &fixture.path("file")).await;
        assert!(started.elapsed() > Duration::from_secs(6), "the link was not slow");
        let mut asked = Vec::new();
        while let Ok(message) = published.try_recv() {
            asked.extend(requested_chunk(&message));
        }
        let chunks: Vec<_> = bytes.chunks(CHUNK_BYTES).map(ContentAddress::of).collect();
        assert_eq!(asked, chunks);
    }
}
