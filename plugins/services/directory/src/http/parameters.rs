//! The parameters of a request to the API. Pure.

use muster_contract::directory::DirectoryQueryInput;
use muster_filter::NodeFilter;
use muster_http::HttpRequest;

use super::targets::FactLabel;

/// Most nodes on a page of the API, unless fewer are requested.
const DEFAULT_PAGE_NODES: usize = 1000;
const MAX_LABELS: usize = 32;

/// Which ones a page accepts is decided when they are read.
#[derive(Debug, Default)]
pub(super) struct ApiParameters {
    pub(super) query: DirectoryQueryInput,
    pub(super) documents: bool,
    pub(super) path: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) labels: Vec<FactLabel>,
    pub(super) last_event_id: Option<String>,
}

impl ApiParameters {
    /// The error is for the client.
    pub(super) fn read(request: &HttpRequest, accepted: &[&str]) -> Result<Self, String> {
        let pairs = request
            .parameters()
            .map_err(|_| "the query of the address is not valid: write %XX for other characters")?;
        Self::of_pairs(pairs, accepted)
    }

    /// Reads names and values.
    pub(super) fn of_pairs(
        pairs: Vec<(String, String)>,
        accepted: &[&str],
    ) -> Result<Self, String> {
        let mut parameters = Self::default();
        parameters.query.limit = Some(DEFAULT_PAGE_NODES);
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in pairs {
            if !accepted.contains(&name.as_str()) {
                let accepted = accepted.join(", ");
                return Err(format!("unknown parameter `{name}`; this page has: {accepted}"));
            }
            if name != "label" && seen.contains(&name) {
                return Err(format!("{name}: given twice"));
            }
            parameters.set(&name, value)?;
            seen.push(name);
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "q" => self.query.filter = parse_query(&value)?,
            "fields" => {
                let fields = value.split(',').filter(|field| !field.is_empty());
                self.query.fields = fields.map(str::to_owned).collect();
            }
            "limit" => self.query.limit = Some(parse_number(name, &value)?),
            "after" => self.query.after = Some(value),
            "stale" => self.query.stale = Some(parse_flag(name, &value)?),
            "documents" => self.documents = parse_flag(name, &value)?,
            "path" => self.path = Some(value),
            "port" => self.port = Some(parse_number(name, &value)?),
            "label" => {
                if self.labels.len() == MAX_LABELS {
                    return Err(format!("label: at most {MAX_LABELS}"));
                }
                self.labels.push(FactLabel::parse(&value)?);
            }
            "last_event_id" => self.last_event_id = Some(value),
            _ => {}
        }
        Ok(())
    }
}

/// A query document as the filter of a request.
fn parse_query(text: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let filter = NodeFilter::default().with_query(text).map_err(|error| format!("q: {error}"))?;
    serde_json::to_string(&filter).map(Some).map_err(|error| format!("q: {error}"))
}

fn parse_number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: `{value}` is not a valid number"))
}

fn parse_flag(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{name}: `{value}` is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<ApiParameters, String> {
        let request = HttpRequest { query: query.to_owned(), ..HttpRequest::default() };
        ApiParameters::read(&request, &["q", "fields", "limit", "label", "stale", "port"])
    }

    #[test]
    fn parameters_are_read_or_refused_with_the_reason() {
        let read_ok = read("q={classes:'a'}&fields=os.name,cpus&limit=2&label=a&label=b=c&stale");
        let parameters = read_ok.unwrap();
        assert!(parameters.query.filter.is_some() && parameters.query.stale == Some(true));
        assert_eq!(parameters.query.fields, ["os.name", "cpus"]);
        assert_eq!((parameters.query.limit, parameters.labels.len()), (Some(2), 2));
        for (query, expected) in [
            ("q={$where:1}", "q: "),
            ("q=a&q=b", "q: "),
            ("limit=2&limit=2", "given twice"),
            ("path=a", "unknown parameter `path`"),
            ("limit=-1", "not a valid number"),
            ("port=70000", "not a valid number"),
            ("stale=yes", "neither true nor false"),
            ("limit=%", "not valid"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(expected), "{query}: {error}");
        }
    }
}
