//! Throughput of the content store, beside a copy on the disk.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use muster_bus::content::ContentStore;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::stores::CONTENT_BUCKET;
use muster_wire::token::ServiceRight;
use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use tempfile::TempDir;

use crate::report::{Figure, Section, Table, max, median, min};

const METHOD: &str = "One file of random bytes, another one in each round, on one broker without replicas on the same machine and disk. Stored: every chunk is hashed, \
written and acknowledged. Stored again: by another process, which finds all chunks. Fetched: every chunk is checked, and the file is synced. The copy is synced, too.";

const MEBIBYTE: usize = 1024 * 1024;
const OPERATIONS: [&str; 4] = ["copy on the disk", "store", "store again", "fetch"];

/// Measures with a file of this many MiB; all rounds together must fit the bucket.
pub(crate) fn bench(mebibytes: usize, rounds: usize) -> Section {
    let title = format!("The content store, {mebibytes} MiB, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let organisation = Organisation::new(&["muster"]);
    let server = runtime.block_on(organisation.start_broker_with_stores());
    let users = [
        organisation.service(ServiceRight::Compile, "compiler1"),
        organisation.node("web1.example.net"),
    ];
    let [compiler, node] = users.map(|user| runtime.block_on(connect(&server, &user)));
    let scratch = TempDir::new().unwrap();
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let mut bytes = vec![0; mebibytes * MEBIBYTE];
        StdRng::seed_from_u64(round as u64).fill_bytes(&mut bytes);
        let source = scratch.path().join("source");
        std::fs::write(&source, &bytes).unwrap();
        let store = || ContentStore::new(compiler.bucket(CONTENT_BUCKET.name));
        let put = |store: ContentStore| {
            let read = async { tokio::fs::File::open(&source).await.unwrap() };
            runtime.block_on(async { store.put_file(read.await, None).await.unwrap() })
        };
        let mut times = [0.0; 4];
        times[0] = time_seconds(|| copy_synced(&source, &scratch.path().join("copy")));
        times[1] = time_seconds(|| {
            put(store());
        });
        let mut file = None;
        times[2] = time_seconds(|| file = Some(put(store())));
        let fetched = ContentStore::new(node.bucket(CONTENT_BUCKET.name));
        let target = scratch.path().join("target");
        let fetching = fetched.get_file(file.unwrap(), &target, u64::MAX);
        times[3] = time_seconds(|| {
            runtime.block_on(fetching).unwrap();
        });
        assert!(std::fs::read(&target).unwrap() == bytes, "another file was fetched");
        if round > 0 {
            samples.iter_mut().zip(times).for_each(|(samples, time)| samples.push(time));
        }
    }
    add_results(&mut section, mebibytes, &samples);
    section
}

fn add_results(section: &mut Section, mebibytes: usize, samples: &[Vec<f64>; 4]) {
    let mebibytes = f64::from(u32::try_from(mebibytes).unwrap());
    let rate = |seconds: f64| format!("{:.0}", mebibytes / seconds);
    let mut table = Table::new(["operation", "median MiB/s", "min", "max"]);
    for (name, times) in OPERATIONS.into_iter().zip(samples) {
        let rates = [median(times), max(times), min(times)].map(rate);
        table.rows.push([name.to_owned()].into_iter().chain(rates).collect());
    }
    section.tables.push(table);
    let [copy, store, _, fetch] = samples.each_ref().map(|times| median(times));
    section.figures.push(Figure::ratio("time to store a file x that of a copy", store / copy));
    section.figures.push(Figure::ratio("time to fetch a file x that of a copy", fetch / copy));
}

fn copy_synced(source: &Path, target: &Path) {
    std::fs::copy(source, target).unwrap();
    File::open(target).unwrap().sync_all().unwrap();
}

fn time_seconds(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}
