//! Creates a bucket, or repairs one of an earlier version.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, StorageType};
use muster_wire::stores::BucketDefinition;
use muster_wire::subject;

use super::{Bucket, BucketError};
use crate::connection::Bus;

/// How long the broker keeps message ids for deduplication. Muster sends none; a short window bounds the memory for ids of clients.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(1);

impl Bus {
    /// Creates the bucket if it is missing, or updates the limits and rules of an existing one to this version. The replica count of an
    /// existing bucket is kept. Needs administrator permissions.
    pub async fn declare_bucket(
        &self,
        store: &BucketDefinition,
        replicas: usize,
    ) -> Result<Bucket, BucketError> {
        let bucket = self.bucket(store.name);
        let jetstream = jetstream::new(self.nats_client().clone());
        let wanted = stream_config(store, replicas);
        let Ok(stream) = jetstream.get_stream(&wanted.name).await else {
            let created = jetstream.create_stream(wanted).await;
            created.map_err(|error| bucket.failed_error("create", &error))?;
            return Ok(bucket);
        };
        let current = &stream.cached_info().config;
        let repaired = repaired_config(current, wanted);
        if repaired != *current {
            let updated = jetstream.update_stream(&repaired).await;
            updated.map_err(|error| bucket.failed_error("update", &error))?;
        }
        Ok(bucket)
    }
}

/// A stream that keeps the last value of each key and refuses headers with which a writer could affect other keys.
fn stream_config(store: &BucketDefinition, replicas: usize) -> Config {
    Config {
        name: format!("KV_{}", store.name),
        description: Some(store.description.to_owned()),
        subjects: vec![subject::bucket_key(store.name, ">")],
        max_messages_per_subject: 1,
        max_message_size: i32::try_from(store.max_value_bytes).unwrap_or(i32::MAX),
        max_bytes: i64::try_from(store.max_bytes).unwrap_or(i64::MAX),
        max_age: store.max_age.unwrap_or_default(),
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: replicas,
        duplicate_window: DUPLICATE_WINDOW,
        // A rollup by a writer of one key would delete all keys.
        allow_rollup: false,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        republish: Some(Republish {
            source: subject::bucket_key(store.name, ">"),
            destination: subject::bucket_changes(store.name, ">"),
            headers_only: false,
        }),
        ..Config::default()
    }
}

/// The configuration of an existing stream with all required rules.
fn repaired_config(current: &Config, wanted: Config) -> Config {
    Config {
        description: wanted.description,
        subjects: wanted.subjects,
        max_messages_per_subject: wanted.max_messages_per_subject,
        max_message_size: wanted.max_message_size,
        max_bytes: wanted.max_bytes,
        max_age: wanted.max_age,
        discard: wanted.discard,
        duplicate_window: wanted.duplicate_window,
        allow_rollup: wanted.allow_rollup,
        deny_delete: wanted.deny_delete,
        deny_purge: wanted.deny_purge,
        allow_direct: wanted.allow_direct,
        republish: wanted.republish,
        ..current.clone()
    }
}
