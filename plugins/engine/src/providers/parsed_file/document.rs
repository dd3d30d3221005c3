//! A line-based file as a sequence of records of a known format and unmodified other lines.
//!
//! Pure. Parsing and rendering reproduces the same bytes; changing a record affects its lines only.

use std::fmt;

use crate::resource::{ResourceValue, ResourceValues};

/// One record: its name and its properties, without `ensure`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileRecord {
    /// Name of the resource.
    pub name: String,
    /// Properties that are set.
    pub values: ResourceValues,
}

impl FileRecord {
    /// One string.
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

/// Format of the records in one kind of file.
pub trait RecordFormat: fmt::Debug + Sync {
    /// Parses a line without its line end; a line that is not UTF-8 is passed as an empty one.
    fn parse_line(&self, line: &str) -> Option<FileRecord>;

    /// Parses a record at the start of the given lines (never empty). Returns the number of lines that belong together, at least one,
    /// and the record, if they form one. By default each line is a record.
    fn parse_record(&self, lines: &[&str]) -> (usize, Option<FileRecord>) {
        (1, lines.first().and_then(|line| self.parse_line(line)))
    }

    /// The lines of a record, each with its line end; the error names the missing property.
    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord>;
}

/// A parsed file.
#[derive(Debug)]
pub struct ParsedDocument<'f> {
    format: &'f dyn RecordFormat,
    segments: Vec<DocumentSegment>,
}

#[derive(Debug)]
struct DocumentSegment {
    bytes: Vec<u8>,
    record: Option<FileRecord>,
}

impl<'f> ParsedDocument<'f> {
    /// Parses a file. Accepts any bytes.
    pub fn parse(format: &'f dyn RecordFormat, bytes: &[u8]) -> Self {
        let raw: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let texts: Vec<&str> = raw.iter().map(|line| line_text(line)).collect();
        let (mut raw, mut texts) = (raw.as_slice(), texts.as_slice());
        let mut segments = Vec::new();
        while !raw.is_empty() {
            let (count, record) = format.parse_record(texts);
            let count = count.clamp(1, raw.len());
            let (taken, rest) = raw.split_at(count);
            segments.push(DocumentSegment { bytes: taken.concat(), record });
            raw = rest;
            texts = texts.split_at(count).1;
        }
        Self { format, segments }
    }

    /// Content of the file.
    pub fn render(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|segment| segment.bytes.iter().copied()).collect()
    }

    /// All records in file order.
    pub fn records(&self) -> impl Iterator<Item = &FileRecord> {
        self.segments.iter().filter_map(|segment| segment.record.as_ref())
    }

    /// The first record of that name.
    pub fn find(&self, name: &str) -> Option<&FileRecord> {
        self.records().find(|record| record.name == name)
    }

    /// Replaces the first record of that name, or appends the record.
    pub fn put(&mut self, record: FileRecord) -> Result<(), IncompleteRecord> {
        let bytes = self.format.render(&record)?.into_bytes();
        let has_same_name = |segment: &&mut DocumentSegment| {
            segment.record.as_ref().is_some_and(|existing| existing.name == record.name)
        };
        if let Some(segment) = self.segments.iter_mut().find(has_same_name) {
            *segment = DocumentSegment { bytes, record: Some(record) };
            return Ok(());
        }
        if let Some(last) = self.segments.last_mut().filter(|last| !last.bytes.ends_with(b"\n")) {
            last.bytes.push(b'\n');
        }
        self.segments.push(DocumentSegment { bytes, record: Some(record) });
        Ok(())
    }

    /// Removes all records of that name.
    pub fn remove(&mut self, name: &str) {
        self.segments
            .retain(|segment| segment.record.as_ref().is_none_or(|record| record.name != name));
    }
}

fn line_text(line: &[u8]) -> &str {
    let text = std::str::from_utf8(line).unwrap_or_default();
    text.strip_suffix('\n').unwrap_or(text)
}
