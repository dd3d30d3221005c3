//! The journal of requests that the daemon has begun and not answered, so that the next daemon can answer them after a crash or a power failure.
//!
//! A line of JSON for each begin and each end. The line of a request that changes the node is synced to disk before its action starts; others are
//! only written. `lost` answers what an earlier daemon has left. Does not decide whether a request was seen: that is `seen`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use muster_files::replace_file;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::limits::MAX_TTL_MILLIS;
use muster_wire::request::work_id;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ground::files;
use crate::ground::shared::lock_mutex;

/// The file is emptied at this number of bytes, once all its requests have ended. That needs no sync: after a crash, old lines only repeat ended requests.
const EMPTY_THRESHOLD: u64 = 64 * 1024;
/// If requests run all the time, the file is rewritten with the unanswered ones at this number of bytes. That syncs, and delays other requests meanwhile.
const REWRITE_THRESHOLD: u64 = 4 * 1024 * 1024;
/// Maximum number of bytes that are read at a start. A journal is a little larger than the threshold at most, unless many requests run.
const MAX_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
const JOURNAL_MODE: u32 = 0o600;

/// A request that has begun, with what a reply needs. No inputs: they may be secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunRequest {
    pub request: Uuid,
    pub caller: Identity,
    pub caller_key: String,
    pub caller_role: String,
    pub collective: SubjectName,
    pub agent: SubjectName,
    pub action: SubjectName,
    /// Whether the action may change the node.
    pub changes: bool,
    /// Where the reply goes, if the caller wants one.
    pub reply_to: Option<String>,
    /// The start, by the node's clock.
    pub since: Millis,
}

impl BegunRequest {
    pub fn work_id(&self) -> Uuid {
        work_id(&self.caller_key, self.request)
    }

    /// The ids under which its work may be stored. Earlier versions used the id of the request; no file of this version has one.
    pub fn stored_work_ids(&self) -> [Uuid; 2] {
        [self.work_id(), self.request]
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JournalLine<'a> {
    Begun(Cow<'a, BegunRequest>),
    /// The id of the request, as earlier versions write and read it; the work id if requests of several callers with this id are open.
    Ended(Uuid),
}

/// The unanswered requests of this daemon and of the one before it.
#[derive(Debug)]
pub struct BegunRequests {
    /// `None` for virtual nodes, which keep nothing.
    path: Option<PathBuf>,
    state: Mutex<BegunState>,
}

#[derive(Debug, Default)]
struct BegunState {
    /// By work id: several callers can have a request with the same id.
    open: HashMap<Uuid, BegunRequest>,
    /// Requests whose work continues outside of the daemon; the next daemon answers them.
    handed_over: HashSet<Uuid>,
    /// `None` if the file cannot be written.
    file: Option<Arc<File>>,
    bytes: u64,
}

impl BegunRequests {
    /// Keeps nothing.
    pub fn disabled() -> Self {
        Self { path: None, state: Mutex::default() }
    }

    /// Requests that an earlier daemon left are [`Self::unanswered`]; those older than a request can be are dropped. A damaged line is skipped: a
    /// power failure tears only lines of requests that were not started. A full disk is reported, and delays nothing.
    pub fn open(path: &Path, now: Millis) -> Self {
        let mut state = BegunState::default();
        match read_journal(path) {
            Ok(open) => state.open = open,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "cannot read which requests were running");
            }
        }
        state.open.retain(|_, begun| now.saturating_sub(begun.since) < MAX_TTL_MILLIS);
        let begun = Self { path: Some(path.to_owned()), state: Mutex::new(state) };
        let written = begun.rewrite(&mut lock_mutex(&begun.state));
        begun.report_failure(written);
        begun
    }

    /// The requests that have begun and not ended, oldest first.
    pub fn unanswered(&self) -> Vec<BegunRequest> {
        let mut open: Vec<BegunRequest> = lock_mutex(&self.state).open.values().cloned().collect();
        open.sort_by_key(|begun| (begun.since, begun.request));
        open
    }

    pub fn begin(&self, begun: BegunRequest) {
        if self.path.is_none() {
            return;
        }
        let mut state = lock_mutex(&self.state);
        let written = state.append(&JournalLine::Begun(Cow::Borrowed(&begun)));
        state.open.insert(begun.work_id(), begun);
        // Without a file the disk was full; the rewrite includes the request.
        let written = if state.file.is_none() { self.rewrite(&mut state) } else { written };
        self.report_failure(written);
    }

    /// Blocks.
    pub fn sync(&self) {
        let file = lock_mutex(&self.state).file.clone();
        let synced = file.map_or(Ok(()), |file| file.sync_data());
        self.report_failure(synced);
    }

    /// Records that the reply to the request with this work id is on its way.
    pub fn end(&self, work: Uuid) {
        let mut state = lock_mutex(&self.state);
        let Some(ended) = state.open.remove(&work) else { return };
        state.handed_over.remove(&work);
        let is_unique = state.open.values().all(|begun| begun.request != ended.request);
        let id = if is_unique { ended.request } else { work };
        let written = match state.bytes {
            bytes if bytes >= EMPTY_THRESHOLD && state.open.is_empty() => state.clear_file(),
            bytes if bytes >= REWRITE_THRESHOLD => self.rewrite(&mut state),
            _ => state.append(&JournalLine::Ended(id)),
        };
        self.report_failure(written);
    }

    /// Leaves a request to the next daemon, because its work outlives this one.
    pub fn hand_over(&self, work: Uuid) {
        lock_mutex(&self.state).handed_over.insert(work);
    }

    /// Whether the next daemon answers this request.
    pub fn is_handed_over(&self, work: Uuid) -> bool {
        lock_mutex(&self.state).handed_over.contains(&work)
    }

    /// Replaces the file by one with the open requests alone.
    fn rewrite(&self, state: &mut BegunState) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        state.file = None;
        let mut text = Vec::new();
        for begun in state.open.values() {
            text.extend(encode_line(&JournalLine::Begun(Cow::Borrowed(begun)))?);
        }
        replace_file(path, &text, JOURNAL_MODE)?;
        let file = OpenOptions::new().append(true).mode(JOURNAL_MODE).open(path)?;
        state.file = Some(Arc::new(file));
        state.bytes = text.len() as u64;
        Ok(())
    }

    /// A failure delays no request: its caller would only wait longer after a crash.
    fn report_failure(&self, written: io::Result<()>) {
        if let (Err(error), Some(path)) = (written, &self.path) {
            tracing::warn!(%error, path = %path.display(), "cannot record which requests run; if the daemon is killed, their callers wait until their timeout");
        }
    }
}

impl BegunState {
    fn clear_file(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(0)?;
        self.bytes = 0;
        Ok(())
    }

    fn append(&mut self, line: &JournalLine<'_>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let bytes = encode_line(line)?;
        let written = (&**file).write_all(&bytes);
        if written.is_err() {
            // It may end with a part of the line, and is replaced.
            self.file = None;
        }
        self.bytes += bytes.len() as u64;
        written
    }
}

fn encode_line(line: &JournalLine<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The requests of a journal that have not ended.
fn read_journal(path: &Path) -> io::Result<HashMap<Uuid, BegunRequest>> {
    let bytes = files::allow_missing(files::read_bytes(path, MAX_JOURNAL_BYTES))?;
    let bytes = bytes.unwrap_or_default();
    let mut open = HashMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(JournalLine::Begun(begun)) => {
                open.insert(begun.work_id(), begun.into_owned());
            }
            Ok(JournalLine::Ended(id)) => remove_ended(&mut open, id),
            Err(_) => {}
        }
    }
    Ok(open)
}

fn remove_ended(open: &mut HashMap<Uuid, BegunRequest>, id: Uuid) {
    if open.remove(&id).is_none() {
        open.retain(|_, begun| begun.request != id);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use muster_wire::identity::{Identity, SubjectName};
    use muster_wire::limits::MAX_TTL_MILLIS;
    use uuid::Uuid;

    use super::{BegunRequest, BegunRequests, EMPTY_THRESHOLD, REWRITE_THRESHOLD};

    const NOW: u64 = 1_800_000_000_000;

    fn begun(number: u128) -> BegunRequest {
        BegunRequest {
            request: Uuid::from_u128(number),
            caller: Identity::parse("rip").unwrap(),
            caller_key: "K".to_owned(),
            caller_role: "caller".to_owned(),
            collective: SubjectName::parse("muster").unwrap(),
            agent: SubjectName::parse("package").unwrap(),
            action: SubjectName::parse("install").unwrap(),
            changes: true,
            reply_to: Some(format!("_R.K.{number}.n")),
            since: NOW + u64::try_from(number).unwrap(),
        }
    }

    /// Earlier versions know the id of a request only.
    #[test]
    fn ends_are_written_as_earlier_versions_read_them() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("begun");
        let requests = BegunRequests::open(&path, NOW);
        let copy = BegunRequest { caller_key: "L".to_owned(), ..begun(2) };
        for request in [begun(1), begun(2), copy.clone()] {
            requests.begin(request);
        }
        requests.end(begun(1).work_id());
        // The other caller's request with this id is open.
        requests.end(begun(2).work_id());
        let text = fs::read_to_string(&path).unwrap();
        for id in [Uuid::from_u128(1), begun(2).work_id()] {
            assert!(text.contains(&format!("{{\"ended\":\"{id}\"}}")), "{text}");
        }
        drop(requests);
        let next = BegunRequests::open(&path, NOW);
        assert_eq!(next.unanswered(), [copy]);
    }

    #[test]
    fn the_next_daemon_finds_what_was_begun_and_not_ended() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("begun");
        let requests = BegunRequests::open(&path, NOW);
        (1..=4).for_each(|number| requests.begin(begun(number)));
        requests.end(begun(2).work_id());
        requests.end(begun(9).work_id());
        requests.sync();
        drop(requests);
        // A power failure tears the last line.
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"ended\":\"0000").unwrap();
        drop(file);
        let next = BegunRequests::open(&path, NOW);
        assert_eq!(next.unanswered(), [begun(1), begun(3), begun(4)]);
        next.end(begun(3).work_id());
        drop(next);
        let later = BegunRequests::open(&path, NOW);
        assert_eq!(later.unanswered(), [begun(1), begun(4)]);
        drop(later);
        let much_later = BegunRequests::open(&path, NOW + MAX_TTL_MILLIS + 4);
        assert_eq!(much_later.unanswered(), []);
    }

    #[test]
    fn the_journal_stays_small() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("begun");
        let requests = BegunRequests::open(&path, NOW);
        let size = || fs::metadata(&path).unwrap().len();
        for number in 2..1000 {
            requests.begin(begun(number));
            requests.end(begun(number).work_id());
            assert!(size() < EMPTY_THRESHOLD + 1024, "{}", size());
        }
        // While a request runs, the lines of others are kept up to the larger limit.
        requests.begin(begun(1));
        for number in 1000..16_000 {
            requests.begin(begun(number));
            requests.end(begun(number).work_id());
        }
        assert!((EMPTY_THRESHOLD..REWRITE_THRESHOLD + 1024).contains(&size()), "{}", size());
        drop(requests);
        assert_eq!(BegunRequests::open(&path, NOW).unanswered(), [begun(1)]);
    }

    #[test]
    fn an_unreadable_journal_is_not_fatal() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("begun");
        fs::create_dir(&path).unwrap();
        let requests = BegunRequests::open(&path, NOW);
        requests.begin(begun(1));
        assert_eq!(requests.unanswered(), [begun(1)]);
        requests.hand_over(Uuid::from_u128(1));
        assert!(requests.is_handed_over(Uuid::from_u128(1)));
    }
}
