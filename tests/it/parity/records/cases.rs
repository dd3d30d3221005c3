//! Random files of records, written as people write them, and a resource for each.
//!
//! Each case has at most three records of the resource, between records of others. A case states whether Puppet reads the records as the programs
//! do that use the file.

use serde_json::{Value, json};

use crate::parity::random::SplitMix;

/// A file, and a resource that is one of its records.
#[derive(Debug)]
pub(crate) struct RecordCase {
    /// The type, capitalized as in a report.
    pub(crate) type_name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) parameters: Value,
    /// The file of the resource in the scratch root; `None` for a crontab.
    pub(crate) target: Option<&'static str>,
    /// The lines of the file without their ends.
    lines: Vec<FileLine>,
    line_end: &'static str,
    has_final_end: bool,
    /// Number of records of the resource.
    pub(crate) own: usize,
    /// Whether Puppet recognizes the records and their values.
    pub(crate) puppet_reads: bool,
}

#[derive(Debug, Clone)]
struct FileLine {
    text: String,
    is_own: bool,
}

impl RecordCase {
    fn new(
        type_name: &'static str,
        title: &'static str,
        target: Option<&'static str>,
        parameters: Value,
    ) -> Self {
        let (lines, line_end, has_final_end, own, puppet_reads) = (Vec::new(), "\n", true, 0, true);
        Self {
            type_name,
            title,
            parameters,
            target,
            lines,
            line_end,
            has_final_end,
            own,
            puppet_reads,
        }
    }

    /// One case of each type.
    pub(crate) fn of_all_types(rng: &mut SplitMix) -> Vec<Self> {
        vec![
            cron_case(rng),
            host_case(rng),
            mailalias_case(rng),
            mount_case(rng),
            authorized_key_case(rng),
            sshkey_case(rng),
        ]
    }

    /// The content of the file.
    pub(crate) fn content(&self) -> String {
        let texts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        let end = if self.has_final_end && !texts.is_empty() { self.line_end } else { "" };
        texts.join(self.line_end) + end
    }

    /// The lines of others, with their ends.
    pub(crate) fn lines_of_others(&self) -> Vec<String> {
        let last = self.lines.len().saturating_sub(1);
        let lines = self.lines.iter().enumerate().map(|(at, line)| {
            let end = if at == last && !self.has_final_end { "" } else { self.line_end };
            (line.is_own, format!("{}{end}", line.text))
        });
        lines.filter(|(is_own, text)| !is_own && !text.is_empty()).map(|(_, text)| text).collect()
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.parameters.get("ensure") == Some(&json!("absent"))
    }

    fn add_others(&mut self, rng: &mut SplitMix, choices: &[&str]) {
        for _ in 0..rng.below(4) {
            let text = rng.choose(choices);
            self.lines.extend(
                text.split('\n').map(|text| FileLine { text: text.to_owned(), is_own: false }),
            );
        }
    }

    fn add_own(&mut self, text: String) {
        self.lines.push(FileLine { text, is_own: true });
    }

    /// Adds up to three records between lines of others.
    fn fill(
        mut self,
        rng: &mut SplitMix,
        others: &[&str],
        mut record: impl FnMut(&mut Self, &mut SplitMix),
    ) -> Self {
        self.add_others(rng, others);
        for _ in 0..rng.choose(&[0, 1, 1, 1, 2, 3]) {
            self.own += 1;
            record(&mut self, rng);
            self.add_others(rng, others);
        }
        self.has_final_end = rng.chance(85);
        if rng.chance(10) {
            self.line_end = "\r\n";
        }
        self
    }
}

/// Adds `ensure => absent` to a third of the resources.
fn with_ensure(rng: &mut SplitMix, mut parameters: Value, present: &str) -> Value {
    let ensure = if rng.chance(30) { "absent" } else { present };
    parameters["ensure"] = json!(ensure);
    parameters
}

fn blank(rng: &mut SplitMix) -> &'static str {
    rng.choose(&[" ", "  ", "\t", " \t "])
}

fn cron_case(rng: &mut SplitMix) -> RecordCase {
    let mut job = json!({"command": "/bin/alpha", "user": "root", "minute": ["0"]});
    if rng.chance(50) {
        job["hour"] = json!([rng.choose(&["1", "2"])]);
    }
    if rng.chance(30) {
        job["environment"] = json!(["A=1", "B=2"]);
    }
    let others = [
        "# a comment",
        "",
        "  # indented",
        "0 5 * * * /bin/other  --all",
        "@daily\t/bin/daily",
        "# Puppet Name: beta\n30 2 * * 1-5 /bin/beta",
    ];
    let parameters = with_ensure(rng, job, "present");
    let mut case = RecordCase::new("Cron", "alpha", None, parameters);
    if rng.chance(20) && case.parameters.get("environment").is_none() {
        // A job that has no marker yet.
        case = case.fill(rng, &others, |_, _| {});
        case.own = 1;
        case.add_own(format!("0 {} * * * /bin/alpha", rng.choose(&["1", "2"])));
    } else {
        case = case.fill(rng, &others, |case, rng| {
            let between: &[&str] = if rng.chance(50) { &["# why", "", " # or not"] } else { &[] };
            let marker = rng.choose(&["# Puppet Name: alpha", "#Puppet Name: alpha"]);
            case.add_own(marker.to_owned());
            for setting in rng.choose::<&[&str]>(&[&[], &[], &["A=1"], &["B=2", "A=1"], &["B = 2"]])
            {
                case.add_between(rng, between);
                case.add_own((*setting).to_owned());
            }
            case.add_between(rng, between);
            let (minute, hour) = (rng.choose(&["0", "5"]), rng.choose(&["1", "2", "*"]));
            case.add_own(format!("{minute}{}{hour} * *\t* /bin/alpha", blank(rng)));
        });
    }
    case.puppet_reads &= case.line_end == "\n";
    case
}

impl RecordCase {
    fn add_between(&mut self, rng: &mut SplitMix, choices: &[&str]) {
        if !choices.is_empty() {
            self.add_others(rng, choices);
        }
    }
}

fn host_case(rng: &mut SplitMix) -> RecordCase {
    let ip = rng.choose(&["10.0.0.1", "10.0.0.2", "::1"]);
    let mut entry = json!({"ip": ip});
    if rng.chance(40) {
        entry["host_aliases"] = rng.choose(&[json!([]), json!(["a1"]), json!(["a1", "a2"])]);
    }
    if rng.chance(30) {
        entry["comment"] = json!("note");
    }
    let others = [
        "# a comment",
        "",
        "nonsense",
        "127.0.0.1   localhost  loghost  # here",
        "::1 localhost",
        "10.0.0.9\tbeta",
        "#10.0.0.1 alpha",
    ];
    let parameters = with_ensure(rng, entry, "present");
    let case = RecordCase::new("Host", "alpha", Some("hosts"), parameters);
    let mut has_comment = false;
    let mut case = case.fill(rng, &others, |case, rng| {
        let indent = if rng.chance(10) { "  " } else { "" };
        case.puppet_reads &= indent.is_empty();
        let ip = rng.choose(&["10.0.0.1", "10.0.0.2", "::1"]);
        let rest = rng.choose(&["", "", " a1", "\ta1  a2", "  # note", " a1 #note"]);
        has_comment |= rest.contains('#');
        case.add_own(format!("{indent}{ip}{}alpha{rest}", blank(rng)));
    });
    case.puppet_reads &= case.line_end == "\n" || !has_comment;
    case
}

fn mailalias_case(rng: &mut SplitMix) -> RecordCase {
    let recipients = [json!(["root"]), json!(["root", "admin@x.org"]), json!(["|/bin/x -f y"])];
    let alias = if rng.chance(85) {
        json!({"recipient": rng.choose(&recipients)})
    } else {
        json!({"file": "/etc/list"})
    };
    let others = [
        "# a comment",
        "",
        "beta:    root",
        "gamma: a, b",
        "list: :include: /etc/other",
        "pipe: \"|/bin/pipe a\"",
    ];
    let parameters = with_ensure(rng, alias, "present");
    let case = RecordCase::new("Mailalias", "alpha", Some("aliases"), parameters);
    case.fill(rng, &others, |case, rng| {
        // Puppet does not replace recipients by a file.
        let is_file = case.parameters.get("file").is_some();
        let is_read = is_file || rng.chance(80);
        case.puppet_reads &= is_read;
        if is_read {
            let values: &[&str] = if is_file {
                &[":include:/etc/list", ":include:/etc/another"]
            } else {
                &["root", "root,admin@x.org", "\"|/bin/x -f y\"", ":include:/etc/list"]
            };
            let value = rng.choose(values);
            case.add_own(format!("alpha{}{value}", rng.choose(&[":", ": ", " :\t"])));
        } else if rng.chance(50) {
            case.add_own(format!("\"alpha\": {}", rng.choose(&["root", "admin"])));
        } else {
            case.add_own("alpha: root,".to_owned());
            case.add_between(rng, &["# why", "", "  # or not"]);
            case.add_own("\tadmin@x.org".to_owned());
        }
    })
}

fn mount_case(rng: &mut SplitMix) -> RecordCase {
    let is_swap = rng.chance(30);
    let (name, fstype) =
        if is_swap { (rng.choose(&["none", "swap"]), "swap") } else { ("/mnt/alpha", "ext4") };
    let device = rng.choose(&["/dev/a", "/dev/b"]);
    let mut mount = json!({"device": device, "fstype": fstype});
    if rng.chance(40) {
        mount["options"] = json!(rng.choose(&["defaults", "ro,noauto"]));
    }
    let others = [
        "# <file system> <mount point>",
        "",
        "lonely",
        "UUID=1 / ext4   errors=remount-ro 0 1",
        "/dev/x\t/srv/my\\040data\txfs\tdefaults",
        "\t# indented",
    ];
    let parameters = with_ensure(rng, mount, "defined");
    let case = RecordCase::new("Mount", name, Some("fstab"), parameters);
    case.fill(rng, &others, |case, rng| {
        let (indent, rest) = (rng.chance(8), rng.chance(8));
        case.puppet_reads &= !indent && !rest;
        let slash = if !is_swap && rng.chance(20) { "/" } else { "" };
        let device = rng.choose(&["/dev/a", "/dev/b"]);
        let options =
            rng.choose(&[" defaults 0 0", "\tro,noauto 0\t0", " defaults 0 2", " defaults"]);
        let (indent, rest) = (if indent { " " } else { "" }, if rest { " 0 0 # data" } else { "" });
        case.add_own(format!(
            "{indent}{device}{}{name}{slash} {fstype}{options}{rest}",
            blank(rng)
        ));
    })
}

fn authorized_key_case(rng: &mut SplitMix) -> RecordCase {
    let mut key =
        json!({"user": "root", "type": "ssh-ed25519", "key": rng.choose(&["AAAAa", "AAAAb"])});
    if rng.chance(40) {
        key["options"] = rng.choose(&[json!(["no-pty"]), json!(["from=\"10.0.0.1,x\"", "no-pty"])]);
    }
    let others = [
        "# a comment",
        "",
        "ssh-rsa AAAAz beta@laptop",
        "no-pty,command=\"a, b\" ssh-ed25519 AAAAy gamma",
        "ssh-rsa AAAAunnamed",
        "#ssh-ed25519 AAAAa alpha",
    ];
    let parameters = with_ensure(rng, key, "present");
    let case = RecordCase::new("Ssh_authorized_key", "alpha", Some("keys"), parameters);
    let mut case = case.fill(rng, &others, |case, rng| {
        let end = if rng.chance(8) { " " } else { "" };
        case.puppet_reads &= end.is_empty();
        let options = rng.choose(&["", "", "no-pty ", "from=\"10.0.0.1,x\",no-pty "]);
        let key = rng.choose(&["AAAAa", "AAAAb"]);
        case.add_own(format!("{options}ssh-ed25519 {key} alpha{end}"));
    });
    case.puppet_reads &= case.line_end == "\n";
    case
}

fn sshkey_case(rng: &mut SplitMix) -> RecordCase {
    let mut key = json!({"type": "ssh-rsa", "key": rng.choose(&["AAAAa", "AAAAb"])});
    if rng.chance(50) {
        key["host_aliases"] = rng.choose(&[json!(["a1"]), json!(["10.0.0.1", "a1"])]);
    }
    let others = [
        "# a comment",
        "",
        "|1|abc=|def= ssh-rsa HASHED",
        "@revoked beta ssh-rsa AAAAr",
        "beta,10.0.0.9   ssh-rsa AAAAz a comment",
        "alpha ssh-ed25519 AAAAother",
    ];
    let parameters = with_ensure(rng, key, "present");
    let case = RecordCase::new("Sshkey", "alpha", Some("known_hosts"), parameters);
    case.fill(rng, &others, |case, rng| {
        let comment = if rng.chance(10) { " mine" } else { "" };
        case.puppet_reads &= comment.is_empty();
        let aliases = rng.choose(&["", "", ",a1", ",10.0.0.1,a1"]);
        let key = rng.choose(&["AAAAa", "AAAAb"]);
        case.add_own(format!(
            "alpha{aliases}{}ssh-rsa {key}{comment}",
            rng.choose(&[" ", "  ", "\t"])
        ));
    })
}
