//! Creates a bucket, or repairs one of an earlier version.

use std::fmt;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Placement, Republish, StorageType};
use muster_wire::stores::{self, BucketDefinition};
use muster_wire::subject;
use tokio::time::{Instant, sleep};

use super::{Bucket, RETRY_INTERVAL, Result};
use crate::connection::Bus;

/// How long the broker keeps message ids for deduplication: the shortest time that it accepts, and 0 would mean two minutes. Muster sends no ids, and a
/// client could fill the broker's memory with them.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);
/// How long to wait for a stream's leader after a change of its replicas.
const NEW_LEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of one question for the leader.
const LEADER_POLL_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests to a cluster before it counts as unavailable. Each is answered within 5 s, or not at all.
const LEADER_ATTEMPTS: u32 = 3;

/// How many servers store a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketReplicas {
    /// This many, or more if the bucket exists with more.
    AtLeast(usize),
    /// This many.
    Exactly(usize),
}

impl BucketReplicas {
    /// The number for a bucket that has this many now; 0 if it does not exist.
    fn target(self, present: usize) -> usize {
        match self {
            Self::AtLeast(count) => count.max(present),
            Self::Exactly(count) => count,
        }
    }
}

/// What a declaration did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketDeclaration {
    /// The bucket was created, with this many replicas.
    Created(usize),
    /// These settings of an existing bucket were changed; empty if none was.
    Updated(Vec<BucketSettingChange>),
}

/// A changed setting of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSettingChange {
    /// The setting.
    pub name: &'static str,
    /// Its value before.
    pub before: String,
    /// Its value now.
    pub after: String,
}

impl fmt::Display for BucketSettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.name, self.before, self.after)
    }
}

impl Bus {
    /// Whether the bucket exists. Needs administrator permissions.
    pub async fn has_bucket(&self, name: &str) -> Result<bool> {
        Ok(find_stream(&self.bucket(name)).await?.is_some())
    }

    /// Assigns files of the bucket, which a server has from the time before it belonged to a cluster, to the bucket. The broker must have no such
    /// bucket. Needs administrator permissions.
    pub async fn adopt_bucket(&self, definition: &BucketDefinition, server: &str) -> Result<()> {
        let jetstream = jetstream::new(self.connection().client.clone());
        let adopted = jetstream.create_stream(placed_config(definition, server)).await;
        adopted.map_err(|error| self.bucket(definition.name).failed_error("adopt", &error))?;
        Ok(())
    }

    /// Creates the bucket if it is missing. Of an existing one it sets the rules, limits and replicas to those of this version.
    /// Limits that an operator raised stay. Needs administrator permissions.
    pub async fn declare_bucket(
        &self,
        definition: &BucketDefinition,
        replicas: BucketReplicas,
    ) -> Result<BucketDeclaration> {
        let bucket = self.bucket(definition.name);
        let jetstream = jetstream::new(self.connection().client.clone());
        let Some(current) = find_stream(&bucket).await? else {
            let count = replicas.target(0);
            let config = stream_config(definition, count);
            let created = jetstream.create_stream(config.clone()).await;
            let created = created.map_err(|error| bucket.failed_error("create", &error))?;
            // A single server with files of a cluster uses them, and leaves the number of replicas in them, which it refuses at its next start.
            if created.cached_info().cluster.is_none() {
                let updated = jetstream.update_stream(&config).await;
                updated.map_err(|error| bucket.failed_error("update", &error))?;
            }
            return Ok(BucketDeclaration::Created(count));
        };
        let count = replicas.target(current.num_replicas);
        let repaired = repaired_config(definition, &current, stream_config(definition, count));
        let changes = changed_settings(&current, &repaired);
        if repaired != current {
            let updated = jetstream.update_stream(&repaired).await;
            updated.map_err(|error| bucket.failed_error("update", &error))?;
            await_leader(&bucket).await?;
        }
        Ok(BucketDeclaration::Updated(changes))
    }
}

/// Waits until a server leads the stream. After a change of replicas, its servers elect a leader, and until then writes time out.
async fn await_leader(bucket: &Bucket) -> Result<()> {
    let mut jetstream = jetstream::new(bucket.bus.connection().client.clone());
    jetstream.set_timeout(LEADER_POLL_TIMEOUT);
    let name = stores::stream_name(bucket.name());
    let deadline = Instant::now() + NEW_LEADER_TIMEOUT;
    loop {
        if let Ok(stream) = jetstream.get_stream(&name).await {
            let cluster = stream.cached_info().cluster.as_ref();
            if cluster.is_none_or(|cluster| cluster.leader.is_some()) {
                return Ok(());
            }
        }
        if Instant::now() > deadline {
            let seconds = NEW_LEADER_TIMEOUT.as_secs();
            let problem = format!("its stream has had no leader for {seconds} s");
            return Err(bucket.failed_error("update", &problem));
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// The stream with one replica on this server.
fn placed_config(definition: &BucketDefinition, server: &str) -> Config {
    let placement = Placement { cluster: None, tags: vec![stores::server_tag(server)] };
    Config { placement: Some(placement), ..stream_config(definition, 1) }
}

/// The configuration of the bucket's stream; `None` if the broker answers that there is none. Any other error is returned, because a stream
/// whose leader does not answer must not be created again.
pub(super) async fn find_stream(bucket: &Bucket) -> Result<Option<Config>> {
    let jetstream = jetstream::new(bucket.bus.connection().client.clone());
    let name = stores::stream_name(bucket.name());
    let mut attempts = 0;
    loop {
        attempts += 1;
        match jetstream.get_stream(&name).await {
            Ok(stream) => return Ok(Some(stream.cached_info().config.clone())),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(problem)
                    if problem.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    return Ok(None);
                }
                // A cluster that has just started has no leader, and does not answer.
                GetStreamErrorKind::Request if attempts < LEADER_ATTEMPTS => {}
                _ => return Err(bucket.failed_error("find", &error)),
            },
        }
    }
}

/// A stream that keeps the last value of each key and refuses headers with which a writer could affect other keys.
fn stream_config(definition: &BucketDefinition, replicas: usize) -> Config {
    Config {
        name: stores::stream_name(definition.name),
        description: Some(definition.description.to_owned()),
        subjects: vec![subject::bucket_key(definition.name, ">")],
        max_messages_per_subject: i64::from(definition.values_per_key),
        max_message_size: i32::try_from(definition.max_value_bytes).unwrap_or(i32::MAX),
        max_bytes: definition.max_bytes.cast_signed(),
        max_age: definition.max_age.unwrap_or_default(),
        discard: if definition.values_per_key > 1 {
            DiscardPolicy::Old
        } else {
            DiscardPolicy::New
        },
        storage: StorageType::File,
        num_replicas: replicas,
        duplicate_window: DUPLICATE_WINDOW,
        // A rollup by a writer of one key would delete all keys.
        allow_rollup: false,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        allow_message_ttl: stores::forgets_deletions(definition.name),
        republish: Some(Republish {
            source: subject::bucket_key(definition.name, ">"),
            destination: subject::bucket_changes(definition.name, ">"),
            headers_only: false,
        }),
        ..Config::default()
    }
}

/// The configuration of an existing stream with all required rules. No change removes a value that is in use: at a lower limit of values or
/// bytes the broker refuses new writes, and limits that were raised stay.
fn repaired_config(definition: &BucketDefinition, current: &Config, expected: Config) -> Config {
    let is_former = definition.former_max_bytes.map(u64::cast_signed) == Some(current.max_bytes);
    let max_bytes = if is_former { 0 } else { current.max_bytes };
    Config {
        description: expected.description,
        subjects: expected.subjects,
        max_messages_per_subject: expected.max_messages_per_subject,
        max_message_size: expected.max_message_size,
        max_bytes: higher_limit(max_bytes, expected.max_bytes),
        max_age: higher_limit(current.max_age, expected.max_age),
        num_replicas: expected.num_replicas,
        // The placement of an adopted bucket would permit one server only.
        placement: current.placement.clone().filter(|placement| !is_server_placement(placement)),
        discard: expected.discard,
        duplicate_window: expected.duplicate_window,
        allow_rollup: expected.allow_rollup,
        deny_delete: expected.deny_delete,
        deny_purge: expected.deny_purge,
        allow_direct: expected.allow_direct,
        // The broker refuses to end it.
        allow_message_ttl: current.allow_message_ttl || expected.allow_message_ttl,
        republish: expected.republish,
        ..current.clone()
    }
}

/// Whether a placement selects one server.
fn is_server_placement(placement: &Placement) -> bool {
    placement.tags.iter().any(|tag| tag.starts_with(stores::SERVER_TAG_PREFIX))
}

/// The higher of two limits; a limit that is not positive is unlimited, and is set unless this version has none.
fn higher_limit<T: Ord + Default + Copy>(current: T, expected: T) -> T {
    let is_unlimited = |limit: T| limit <= T::default();
    if is_unlimited(current) || is_unlimited(expected) { expected } else { current.max(expected) }
}

/// Formats one setting of a stream.
type SettingReader = fn(&Config) -> String;

/// The settings in which two configurations of a stream differ.
fn changed_settings(current: &Config, repaired: &Config) -> Vec<BucketSettingChange> {
    let settings: [(&'static str, SettingReader); 12] = [
        ("replicas", |config| config.num_replicas.to_string()),
        ("max_bytes", |config| config.max_bytes.to_string()),
        ("max_value_bytes", |config| config.max_message_size.to_string()),
        ("max_age_seconds", |config| config.max_age.as_secs().to_string()),
        ("values_per_key", |config| config.max_messages_per_subject.to_string()),
        ("duplicate_window_millis", |config| config.duplicate_window.as_millis().to_string()),
        ("rollup", |config| config.allow_rollup.to_string()),
        ("deny_delete", |config| config.deny_delete.to_string()),
        ("deny_purge", |config| config.deny_purge.to_string()),
        ("direct_reads", |config| config.allow_direct.to_string()),
        ("expiring_deletions", |config| config.allow_message_ttl.to_string()),
        ("republish", |config| config.republish.is_some().to_string()),
    ];
    let change = |(name, value): (&'static str, SettingReader)| {
        let (before, after) = (value(current), value(repaired));
        (before != after).then_some(BucketSettingChange { name, before, after })
    };
    settings.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::stores::{PERMITS_BUCKET, TRUST_BUCKET};

    use super::{BucketReplicas, changed_settings, repaired_config, stream_config};

    #[test]
    fn limits_are_set_and_raised_ones_stay() {
        let expected = stream_config(&PERMITS_BUCKET, 3);
        let mut lower = expected.clone();
        lower.max_bytes = 1024;
        lower.max_age = Duration::from_mins(1);
        lower.num_replicas = 1;
        let repaired = repaired_config(&PERMITS_BUCKET, &lower, expected.clone());
        assert_eq!(repaired, expected);
        let changes: Vec<String> =
            changed_settings(&lower, &repaired).iter().map(ToString::to_string).collect();
        assert_eq!(
            changes,
            ["replicas 1 -> 3", "max_bytes 1024 -> 67108864", "max_age_seconds 60 -> 172800"]
        );
        let mut raised = expected.clone();
        (raised.max_bytes, raised.max_age) = (i64::MAX, Duration::from_hours(100));
        assert_eq!(repaired_config(&PERMITS_BUCKET, &raised, expected.clone()), raised);
        assert_eq!(changed_settings(&raised, &raised), []);
        let mut unlimited = expected.clone();
        (unlimited.max_bytes, unlimited.max_age) = (-1, Duration::ZERO);
        assert_eq!(repaired_config(&PERMITS_BUCKET, &unlimited, expected.clone()), expected);
        let expected = stream_config(&TRUST_BUCKET, 3);
        let mut former = expected.clone();
        former.max_bytes = 96 * 1024 * 1024;
        assert_eq!(repaired_config(&TRUST_BUCKET, &former, expected.clone()), expected);
    }

    #[test]
    fn replicas_are_kept_unless_a_number_is_given() {
        assert_eq!(BucketReplicas::AtLeast(3).target(0), 3);
        assert_eq!(BucketReplicas::AtLeast(1).target(3), 3);
        assert_eq!(BucketReplicas::Exactly(1).target(3), 1);
    }
}
