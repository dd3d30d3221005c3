//! All limits on untrusted input before it is parsed.
//!
//! The limits are part of the protocol: both sides enforce them. Limits that an operator tunes (concurrency, queue depth)
//! belong to the daemon's configuration.

/// Largest signed request that is decoded, in bytes. At most the broker's default `max_payload` of 1 MiB.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Largest signed reply that is decoded, in bytes.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// Largest signed progress message that is decoded, in bytes.
pub const MAX_PROGRESS_BYTES: usize = 128 * 1024;

/// Largest signed event that is decoded, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// Largest signed record of a node in the directory's bucket, in bytes.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Largest content of a record after decompression, in bytes: facts and state of the largest permitted size, classes and agents. A record of real facts
/// reaches [`MAX_RECORD_BYTES`] earlier; only an artificial text shrinks to less than an eighth.
pub const MAX_RECORD_CONTENT_BYTES: usize = 512 * 1024;

/// Most collectives in a record.
pub const MAX_RECORD_COLLECTIVES: usize = 64;

/// Most agents in a record.
pub const MAX_RECORD_AGENTS: usize = 1000;

/// Most classes in a record.
pub const MAX_RECORD_CLASSES: usize = 10_000;

/// Bytes at the beginning of a record's content from which version and collectives are read if the content is refused.
pub const MAX_RECORD_HEAD_BYTES: usize = 64 * 1024;

/// Largest signed heartbeat of a node, in bytes: mostly its token.
pub const MAX_HEARTBEAT_BYTES: usize = MAX_USER_TOKEN_BYTES + 2 * 1024;

/// Longest text of an event, in bytes.
pub const MAX_EVENT_TEXT_BYTES: usize = 1024;

/// Largest JSON web token that is decoded, in bytes. An account token carries signing keys and revocations of 93 bytes each: 10,000
/// revocations fit, and the message around the token stays below the broker's `max_payload` of 1 MiB.
pub const MAX_TOKEN_BYTES: usize = 1_000_000;

/// Longest lifetime of a node token that a service signs, in seconds: 90 days. After that, a revoked node key has no valid token.
pub const MAX_NODE_TOKEN_SECONDS: u64 = 90 * 24 * 60 * 60;

/// Largest user token inside a message, in bytes.
pub const MAX_USER_TOKEN_BYTES: usize = 16 * 1024;

/// Longest line with which a user connects to the broker, in bytes: its token, and 4 KiB for its name, a signature and options. The
/// generated configuration of the broker permits it; nats-server's default of 4 KiB does not.
pub const MAX_CONNECT_BYTES: usize = MAX_USER_TOKEN_BYTES + CONNECT_OPTIONS_BYTES;

/// Most tokens of a subject to which a user subscribes: a name of [`MAX_IDENTITY_BYTES`] has a label for each two bytes, after at most eight tokens. The
/// broker keeps a table for each token, so one subscription without this limit costs it megabytes.
pub const MAX_SUBSCRIPTION_TOKENS: usize = MAX_IDENTITY_BYTES.div_ceil(2) + 8;

/// Space for the rest of the line beside the token, in bytes.
pub const CONNECT_OPTIONS_BYTES: usize = 4 * 1024;

/// Most tokens that a caller keeps in its cache of verified tokens between commands.
pub const MAX_VERIFIED_TOKENS: usize = 64 * 1024;

/// Longest identity, in bytes: the limit of a DNS name.
pub const MAX_IDENTITY_BYTES: usize = 253;

/// Longest part of an identity between dots, in bytes: the limit of a DNS label.
pub const MAX_LABEL_BYTES: usize = 63;

/// Longest name of a collective, an agent or an action, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Most nodes that one request may list.
pub const MAX_TARGET_NODES: usize = 20_000;

/// Most bytes of encrypted inputs in one request, as text, for all of its nodes.
pub const MAX_ENCRYPTED_INPUT_BYTES: usize = 768 * 1024;

/// Most encrypted inputs for one node.
pub const MAX_ENCRYPTED_INPUTS: usize = 64;

/// Longest time to live of a request, in milliseconds: one day.
pub const MAX_TTL_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Largest signed proposal that is decoded, in bytes. A proposal is embedded in an approval, and the approval in a request.
pub const MAX_PROPOSAL_BYTES: usize = 256 * 1024;

/// Largest signed approval that is decoded, in bytes.
pub const MAX_APPROVAL_BYTES: usize = 512 * 1024;

/// Longest lifetime of a proposal, in milliseconds: one day.
pub const MAX_PROPOSAL_LIFETIME_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Largest signed schedule, with its author's token.
pub const MAX_SCHEDULE_GRANT_BYTES: usize = MAX_USER_TOKEN_BYTES + 32 * 1024;

/// Longest lifetime of a schedule, in milliseconds.
pub const MAX_SCHEDULE_LIFETIME_MILLIS: u64 = 400 * 24 * 60 * 60 * 1000;

/// Largest signed catalog, in bytes: at most the broker's default `max_payload` of 1 MiB.
pub const MAX_CATALOG_BYTES: usize = 1024 * 1024;

/// Largest signed release or promotion, with its author's token.
pub const MAX_PROMOTION_BYTES: usize = MAX_USER_TOKEN_BYTES + 32 * 1024;

/// Largest catalog after decompression, in bytes. A catalog of 2,000 resources has 900 KB.
pub const MAX_CATALOG_CONTENT_BYTES: usize = 32 * 1024 * 1024;

/// Largest signed batch of a node's history, with the node's token.
pub const MAX_HISTORY_BYTES: usize = 48 * 1024;

/// Largest compressed records of a batch, in bytes.
pub const MAX_HISTORY_TEXT_BYTES: usize = MAX_HISTORY_BYTES - MAX_USER_TOKEN_BYTES - 2 * 1024;

/// Largest record of a history, in bytes of JSON: even one that cannot be compressed fits into a batch.
pub const MAX_HISTORY_RECORD_BYTES: usize = 20 * 1024;

/// Largest records of a batch after decompression, in bytes.
pub const MAX_HISTORY_BATCH_BYTES: usize = 256 * 1024;

/// Longest line of an audit log, in bytes: the escaped inputs of a request, or an account token.
pub const MAX_AUDIT_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Largest agent bundle, in bytes. It is held in memory during verification.
pub const MAX_BUNDLE_BYTES: usize = 64 * 1024 * 1024;

/// Largest signed manifest of a bundle, in bytes.
pub const MAX_BUNDLE_MANIFEST_BYTES: usize = 128 * 1024;

/// Most files in a bundle.
pub const MAX_BUNDLE_FILES: usize = 256;

/// Longest path in a bundle, in bytes: with the prefix `files/` it fits into the name field of the oldest tar header.
pub const MAX_BUNDLE_PATH_BYTES: usize = 90;

/// Largest signed enrolment request that is decoded, in bytes: about two user tokens plus names and facts.
pub const MAX_ENROLMENT_REQUEST_BYTES: usize = 64 * 1024;

/// Largest signed enrolment answer, in bytes: an account token, a node token, and 40 KiB for the rest.
pub const MAX_ENROLMENT_ANSWER_BYTES: usize = MAX_TOKEN_BYTES + 40 * 1024;

/// Most name patterns in one bootstrap token.
pub const MAX_TOKEN_GRANT_NAMES: usize = 64;

/// Most facts in one bootstrap token.
pub const MAX_TOKEN_GRANT_FACTS: usize = 32;

/// Longest value of a fact in a bootstrap token, and longest version in an enrolment request, in bytes.
pub const MAX_TOKEN_GRANT_TEXT_BYTES: usize = 256;

/// Longest age of an enrolment request after it was signed, in milliseconds, plus the allowed clock skew.
pub const MAX_ENROLMENT_REQUEST_AGE_MILLIS: u64 = 60 * 1000;
