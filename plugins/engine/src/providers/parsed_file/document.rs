//! A line-based file as a sequence of records of a known format and unmodified other lines.
//!
//! Pure. Parsing and rendering reproduces the same bytes; changing a record affects its lines only.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use crate::resource::{ResourceValue, ResourceValues};

/// One record: its name and its properties, without `ensure`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileRecord {
    pub name: String,
    pub values: ResourceValues,
}

impl FileRecord {
    pub fn get_text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(ResourceValue::as_text)
    }

    /// One string without which the record has no line.
    pub fn require_text(
        &self,
        name: &str,
        problem: &'static str,
    ) -> Result<&str, IncompleteRecord> {
        self.get_text(name).ok_or(IncompleteRecord(problem))
    }

    /// One list; empty if it is not set.
    pub fn get_list(&self, name: &str) -> Vec<&str> {
        self.values.get(name).map(ResourceValue::as_list).unwrap_or_default()
    }
}

/// A record without a property that its line needs; the text names the property.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IncompleteRecord(pub &'static str);

/// The lines at the start of a file's rest that belong together.
#[derive(Debug, Default)]
pub struct LineGroup {
    /// Number of lines, at least one.
    pub count: usize,
    /// Positions of comments and of other lines between those of the record. They outlive the record.
    pub between: BTreeSet<usize>,
    /// The record, if the lines form one.
    pub record: Option<FileRecord>,
}

impl LineGroup {
    pub fn single(record: Option<FileRecord>) -> Self {
        Self { count: 1, between: BTreeSet::new(), record }
    }
}

pub trait RecordFormat: fmt::Debug + Sync {
    /// Parses a line without its line end.
    fn parse_line(&self, line: &str) -> Option<FileRecord>;

    /// Parses a record at the start of the given lines (never empty). By default each line is a record.
    fn parse_record(&self, lines: &[&str]) -> LineGroup {
        LineGroup::single(lines.first().and_then(|line| self.parse_line(line)))
    }

    /// The lines of a record, each with its line end; the error names the missing property.
    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord>;
}

#[derive(Debug)]
pub struct ParsedDocument<'f> {
    format: &'f dyn RecordFormat,
    segments: Vec<DocumentSegment>,
}

#[derive(Debug)]
struct DocumentSegment {
    bytes: Vec<u8>,
    /// The lines of `bytes` that outlive the record.
    between: Vec<u8>,
    record: Option<FileRecord>,
}

pub type RecordPosition = usize;

impl<'f> ParsedDocument<'f> {
    /// Accepts any bytes; a record with a line that is not UTF-8 is not recognized.
    pub fn parse(format: &'f dyn RecordFormat, bytes: &[u8]) -> Self {
        let raw: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let texts: Vec<Cow<'_, str>> = raw.iter().map(|line| line_text(line)).collect();
        let texts: Vec<&str> = texts.iter().map(Cow::as_ref).collect();
        let (mut raw, mut texts) = (raw.as_slice(), texts.as_slice());
        let mut segments = Vec::new();
        while !raw.is_empty() {
            let group = format.parse_record(texts);
            let (taken, rest) = raw.split_at(group.count.clamp(1, raw.len()));
            texts = texts.split_at(taken.len()).1;
            raw = rest;
            segments.push(DocumentSegment::from_lines(taken, group));
        }
        Self { format, segments }
    }

    pub fn render(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|segment| segment.bytes.iter().copied()).collect()
    }

    /// All records in file order.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = (RecordPosition, &FileRecord)> {
        let segments = self.segments.iter().enumerate();
        segments.filter_map(|(at, segment)| Some((at, segment.record.as_ref()?)))
    }

    pub fn get(&self, at: RecordPosition) -> Option<&FileRecord> {
        self.segments.get(at)?.record.as_ref()
    }

    /// Replaces the record at a position, or appends the record.
    pub fn put(
        &mut self,
        at: Option<RecordPosition>,
        record: FileRecord,
    ) -> Result<(), IncompleteRecord> {
        let lines = self.format.render(&record)?;
        if let Some(segment) = at.and_then(|at| self.segments.get_mut(at)) {
            segment.bytes = [&segment.between, lines.as_bytes()].concat();
            segment.record = Some(record);
            return Ok(());
        }
        if let Some(last) = self.segments.last_mut().filter(|last| !last.bytes.ends_with(b"\n")) {
            last.bytes.push(b'\n');
        }
        let (bytes, between) = (lines.into_bytes(), Vec::new());
        self.segments.push(DocumentSegment { bytes, between, record: Some(record) });
        Ok(())
    }

    /// Other positions stay valid.
    pub fn remove(&mut self, positions: &[RecordPosition]) {
        for at in positions {
            if let Some(segment) = self.segments.get_mut(*at) {
                segment.bytes = std::mem::take(&mut segment.between);
                segment.record = None;
            }
        }
    }
}

impl DocumentSegment {
    fn from_lines(lines: &[&[u8]], group: LineGroup) -> Self {
        let (mut between, mut is_text) = (Vec::new(), true);
        for (at, line) in lines.iter().enumerate() {
            if group.between.contains(&at) {
                between.extend_from_slice(line);
            } else {
                is_text &= std::str::from_utf8(line).is_ok();
            }
        }
        Self { bytes: lines.concat(), between, record: group.record.filter(|_| is_text) }
    }
}

fn line_text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line))
}
