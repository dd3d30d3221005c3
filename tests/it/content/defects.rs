//! What is altered or missing in the store is named, is never given the name of the file, and is repaired by another put.

use muster_bus::Bucket;
use muster_bus::content::{ContentError, ContentStore};
use muster_wire::catalog::content::{
    CHUNK_BYTES, ContentAddress, ContentDefect, ContentEntryError, ContentKey,
};
use muster_wire::stores::CONTENT_BUCKET;

use super::fixture::{ContentFixture, SIZE_LIMIT, fetch, put, random_bytes};

/// Fetches a file that the store has with a defect.
async fn find_defect(
    fixture: &ContentFixture,
    node: &ContentStore,
    file: ContentAddress,
) -> ContentDefect {
    let path = fixture.path("file");
    let error = node.get_file(file, &path, SIZE_LIMIT).await.unwrap_err();
    assert!(!path.exists(), "{error}");
    match error {
        ContentError::Defect(defect) => defect,
        other => panic!("{other:?}"),
    }
}

/// The defects of the whole store.
async fn verify(fixture: &ContentFixture) -> Vec<ContentDefect> {
    fixture.compiler().await.verify().await.unwrap().defects
}

async fn content_bucket(fixture: &ContentFixture) -> Bucket {
    fixture.administrator().await.bucket(CONTENT_BUCKET.name)
}

fn chunks_of(bytes: &[u8]) -> Vec<ContentAddress> {
    bytes.chunks(CHUNK_BYTES).map(ContentAddress::of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_altered_and_missing_chunks_are_named_and_repaired() {
    let fixture = ContentFixture::new().await;
    let (node, bucket) = (fixture.node().await, content_bucket(&fixture).await);
    let bytes = random_bytes(1, 3 * CHUNK_BYTES);
    let file = put(&fixture.compiler().await, &bytes).await;
    let chunks = chunks_of(&bytes);
    let (second, third) = (chunks[1], chunks[2]);

    let mut altered = bytes[CHUNK_BYTES..2 * CHUNK_BYTES].to_vec();
    altered[1000] ^= 1;
    bucket.put(&ContentKey::Chunk(second).to_string(), altered.into()).await.unwrap();
    let expected = ContentDefect::ChunkAltered { file, chunk: second };
    assert_eq!(find_defect(&fixture, &node, file).await, expected);
    assert_eq!(verify(&fixture).await, std::slice::from_ref(&expected));
    let message = expected.to_string();
    assert!([file, second].iter().all(|name| message.contains(&name.to_string())), "{message}");

    put(&fixture.compiler().await, &bytes).await;
    assert_eq!(verify(&fixture).await, []);
    let fetched = fetch(&node, file, &fixture.path("file")).await;
    assert_eq!(fetched.kept_chunks, 1, "the chunk before the altered one");
    std::fs::remove_file(fixture.path("file")).unwrap();

    bucket.delete(&ContentKey::Chunk(third).to_string()).await.unwrap();
    let expected = ContentDefect::ChunkMissing { file, chunk: third };
    assert_eq!(find_defect(&fixture, &node, file).await, expected);
    assert_eq!(verify(&fixture).await, [expected]);
    // The compiler forgets what it has stored.
    let compiler = fixture.compiler().await;
    put(&compiler, &bytes).await;
    bucket.delete(&ContentKey::Chunk(third).to_string()).await.unwrap();
    put(&compiler, &bytes).await;
    assert_eq!(verify(&fixture).await.len(), 1);
    compiler.forget_stored();
    put(&compiler, &bytes).await;
    assert_eq!(verify(&fixture).await, []);
    assert_eq!(fetch(&node, file, &fixture.path("file")).await.kept_chunks, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_list_of_other_chunks_is_not_accepted() {
    let fixture = ContentFixture::new().await;
    let (node, bucket) = (fixture.node().await, content_bucket(&fixture).await);
    let compiler = fixture.compiler().await;
    let file = put(&compiler, &random_bytes(1, 3 * CHUNK_BYTES)).await;
    let other = put(&compiler, &random_bytes(2, 3 * CHUNK_BYTES)).await;
    let list = bucket.get(&ContentKey::File(other).to_string()).await.unwrap().unwrap();
    bucket.put(&ContentKey::File(file).to_string(), list.value.unwrap()).await.unwrap();
    let expected = ContentDefect::FileAltered { file };
    assert_eq!(find_defect(&fixture, &node, file).await, expected);
    assert_eq!(fixture.file_names(), [""; 0], "its chunks would be kept by the next fetch");
    assert_eq!(verify(&fixture).await, [expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_altered_entries_are_named() {
    let fixture = ContentFixture::new().await;
    let (node, bucket) = (fixture.node().await, content_bucket(&fixture).await);
    let file = ContentAddress::of(b"small");
    assert_eq!(find_defect(&fixture, &node, file).await, ContentDefect::FileMissing { file });
    put(&fixture.compiler().await, b"small").await;
    let key = ContentKey::File(file).to_string();
    let unknown = ContentEntryError::UnknownForm(9);
    for (value, expected) in [
        (&b"\0other"[..], ContentDefect::FileAltered { file }),
        (b"\x09", ContentDefect::EntryInvalid { file, source: unknown }),
        (b"", ContentDefect::EntryInvalid { file, source: ContentEntryError::Empty }),
    ] {
        bucket.put(&key, value.into()).await.unwrap();
        assert_eq!(find_defect(&fixture, &node, file).await, expected);
        assert_eq!(verify(&fixture).await, [expected]);
        // An altered entry does not count as stored.
        let compiler = fixture.compiler().await;
        let put = compiler.put_file(&b"small"[..], Some(file)).await.unwrap();
        assert_eq!((put, verify(&fixture).await), (file, vec![]));
    }
    let chunk = ContentAddress::of(b"chunk");
    bucket.put(&ContentKey::Chunk(chunk).to_string(), "altered".into()).await.unwrap();
    assert_eq!(verify(&fixture).await, [ContentDefect::StrayChunkAltered { chunk }]);
}
