//! A list of documents with their JSON Schemas, as files in `docs/reference/schemas`. Tests generate them from the printed types.

#[derive(Debug)]
pub struct PublishedSchema {
    /// Its name and version, as in a document's `schema`.
    pub name: &'static str,
    /// The commands that print such documents.
    pub commands: &'static str,
    pub text: &'static str,
    /// Generates the schema from the type of the document.
    #[cfg(test)]
    pub generate: fn() -> serde_json::Value,
}

/// Defines `DOCUMENTS`: the name of each document, the commands that print it, and its type.
macro_rules! documents {
    ($($name:literal: $commands:literal, $document:ty;)*) => {
        /// The documents that commands print.
        pub const DOCUMENTS: &[PublishedSchema] = &[$(PublishedSchema {
            name: $name,
            commands: $commands,
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../docs/reference/schemas/",
                $name,
                ".json"
            )),
            #[cfg(test)]
            generate: schema::published::tests::generate::<$document>,
        }),*];
    };
}

pub(in crate::commands) use documents;

#[cfg(test)]
pub mod tests;
