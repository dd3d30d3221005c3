//! Line-preserving editor for passwd, shadow, group and gshadow: changes single fields and preserves everything else.
//!
//! Pure. Works on bytes, because old comments are not always UTF-8. Interprets only the first field, the name.

/// One of the four files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountTable {
    lines: Vec<Vec<u8>>,
}

impl AccountTable {
    /// Accepts any bytes.
    pub fn parse(content: &[u8]) -> Self {
        let mut lines: Vec<Vec<u8>> =
            content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        Self { lines }
    }

    /// Renders the file; terminates the last line.
    pub fn render(&self) -> Vec<u8> {
        let mut content = self.lines.join(&b'\n');
        if !self.lines.is_empty() {
            content.push(b'\n');
        }
        content
    }

    /// Fields of all entries as text, without comments and name service lines (`+`, `-`).
    pub fn entries(&self) -> impl Iterator<Item = Vec<String>> {
        self.lines.iter().filter(|line| is_entry(line)).map(|line| split_fields(line))
    }

    /// Fields of the first entry of that name.
    pub fn get(&self, name: &str) -> Option<Vec<String>> {
        self.find_position(name)
            .and_then(|index| self.lines.get(index))
            .map(|line| split_fields(line))
    }

    /// Sets one field of the first entry of that name; missing fields before it become empty. Returns whether the entry exists.
    pub fn set_field(&mut self, name: &str, field: usize, value: &str) -> bool {
        let index = self.find_position(name);
        let Some(line) = index.and_then(|index| self.lines.get_mut(index)) else { return false };
        let mut parts: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        if parts.len() <= field {
            parts.resize(field + 1, &[]);
        }
        if let Some(part) = parts.get_mut(field) {
            *part = value.as_bytes();
        }
        *line = parts.join(&b':');
        true
    }

    /// Replaces the entry with that name (the first field), or adds it before the name service lines.
    pub fn put(&mut self, fields: &[&str]) {
        let line = fields.join(":").into_bytes();
        let name = fields.first().copied().unwrap_or_default();
        if let Some(existing) = self.find_position(name).and_then(|index| self.lines.get_mut(index))
        {
            *existing = line;
            return;
        }
        let end = self.lines.iter().position(|line| line.starts_with(b"+"));
        self.lines.insert(end.unwrap_or(self.lines.len()), line);
    }

    /// Removes all entries of that name; returns whether any existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !(is_entry(line) && is_named(line, name)));
        self.lines.len() < before
    }

    fn find_position(&self, name: &str) -> Option<usize> {
        self.lines.iter().position(|line| is_entry(line) && is_named(line, name))
    }
}

fn is_entry(line: &[u8]) -> bool {
    !matches!(line.first(), None | Some(b'#' | b'+' | b'-')) && line.contains(&b':')
}

fn is_named(line: &[u8], name: &str) -> bool {
    line.split(|byte| *byte == b':').next() == Some(name.as_bytes())
}

fn split_fields(line: &[u8]) -> Vec<String> {
    line.split(|byte| *byte == b':')
        .map(|field| String::from_utf8_lossy(field).into_owned())
        .collect()
}

pub fn parse_members(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A member list with exactly the desired names: existing ones keep their order, new ones follow.
pub fn update_members(list: &str, desired: &[String]) -> String {
    let mut names = parse_members(list);
    names.retain(|name| desired.contains(name));
    for name in desired {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unknown_lines_and_bytes_are_kept() {
        let text = b"# users\nroot:x:0:0::/root:/bin/sh\n\nold:x:7:7:J\xf6rg:/:/bin/sh\nbroken\n+@nis::::::\n";
        let mut table = AccountTable::parse(text);
        table.put(&["rip", "x", "9"]);
        assert!(table.set_field("old", 6, "/bin/false"));
        assert!(!table.set_field("nobody", 6, "/bin/false"));
        let expected = b"# users\nroot:x:0:0::/root:/bin/sh\n\nold:x:7:7:J\xf6rg:/:/bin/false\nbroken\nrip:x:9\n+@nis::::::\n";
        assert_eq!(table.render(), expected);
        assert!(table.remove("rip"));
        assert!(table.set_field("old", 6, "/bin/sh"));
        assert_eq!(table.render(), text);
    }

    #[test]
    fn members_keep_their_order() {
        let wanted = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(update_members("x,c,a", &wanted), "c,a,b");
        assert_eq!(update_members("x", &[]), "");
    }

    proptest! {
        #[test]
        fn any_file_is_rendered_unchanged(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let table = AccountTable::parse(&content);
            let mut expected = content.clone();
            if !expected.is_empty() && !expected.ends_with(b"\n") {
                expected.push(b'\n');
            }
            prop_assert_eq!(table.render(), expected);
        }

        #[test]
        fn set_field_is_read_back_and_changes_one_line(
            lines in proptest::collection::vec("[a-c#+-]?(:[a-z,]{0,3}){0,4}", 0..8),
            name in "[a-c]", field in 1_usize..6, value in "[a-z,]{0,5}",
        ) {
            let mut table = AccountTable::parse(lines.join("\n").as_bytes());
            let before = table.clone();
            let there = table.set_field(&name, field, &value);
            prop_assert_eq!(there, before.get(&name).is_some());
            if there {
                prop_assert_eq!(&table.get(&name).unwrap()[field], &value);
            }
            let changed = table.lines.iter().zip(&before.lines).filter(|(new, old)| new != old);
            prop_assert!(changed.count() <= 1);
        }
    }
}
