//! Creates a bucket, or repairs one of an earlier version.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, StorageType};
use muster_wire::stores::BucketDefinition;
use muster_wire::subject;

use super::{Bucket, Result};
use crate::connection::Bus;

/// How long the broker keeps message ids for deduplication. Muster sends none; a short window bounds the memory for ids of clients.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(1);

impl Bus {
    /// Creates the bucket if it is missing, or updates the limits and rules of an existing one to this version. The replica count of an
    /// existing bucket is kept. Needs administrator permissions.
    pub async fn declare_bucket(
        &self,
        definition: &BucketDefinition,
        replicas: usize,
    ) -> Result<Bucket> {
        let bucket = self.bucket(definition.name);
        let jetstream = jetstream::new(self.nats_client().clone());
        let expected = stream_config(definition, replicas);
        let Ok(stream) = jetstream.get_stream(&expected.name).await else {
            let created = jetstream.create_stream(expected).await;
            created.map_err(|error| bucket.failed_error("create", &error))?;
            return Ok(bucket);
        };
        let current = &stream.cached_info().config;
        let repaired = repaired_config(current, expected);
        if repaired != *current {
            let updated = jetstream.update_stream(&repaired).await;
            updated.map_err(|error| bucket.failed_error("update", &error))?;
        }
        Ok(bucket)
    }
}

/// A stream that keeps the last value of each key and refuses headers with which a writer could affect other keys.
fn stream_config(definition: &BucketDefinition, replicas: usize) -> Config {
    Config {
        name: format!("KV_{}", definition.name),
        description: Some(definition.description.to_owned()),
        subjects: vec![subject::bucket_key(definition.name, ">")],
        max_messages_per_subject: 1,
        max_message_size: i32::try_from(definition.max_value_bytes).unwrap_or(i32::MAX),
        max_bytes: i64::try_from(definition.max_bytes).unwrap_or(i64::MAX),
        max_age: definition.max_age.unwrap_or_default(),
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
            source: subject::bucket_key(definition.name, ">"),
            destination: subject::bucket_changes(definition.name, ">"),
            headers_only: false,
        }),
        ..Config::default()
    }
}

/// The configuration of an existing stream with all required rules.
fn repaired_config(current: &Config, expected: Config) -> Config {
    Config {
        description: expected.description,
        subjects: expected.subjects,
        max_messages_per_subject: expected.max_messages_per_subject,
        max_message_size: expected.max_message_size,
        max_bytes: expected.max_bytes,
        max_age: expected.max_age,
        discard: expected.discard,
        duplicate_window: expected.duplicate_window,
        allow_rollup: expected.allow_rollup,
        deny_delete: expected.deny_delete,
        deny_purge: expected.deny_purge,
        allow_direct: expected.allow_direct,
        republish: expected.republish,
        ..current.clone()
    }
}
