//! Users and groups through the engine's door: in scratch roots, in memory, and by the programs of shadow-utils.

#[cfg(test)]
mod accounts {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;
    use std::sync::Arc;

    use muster_engine::engine::Outcome;
    use muster_engine::resource::Value;
    use muster_engine::{Engine, EngineError};
    use muster_system::command::Cancel;
    use muster_system::fake::FakeSystem;
    use muster_system::real::RealSystem;
    use muster_system::{Attributes, Output, System};
    use proptest::prelude::*;
    use serde_json::{Map, Value as Json, json};

    /// Words of a resource as JSON, in one line.
    fn words(json: Json) -> Map<String, Json> {
        match json {
            Json::Object(words) => words,
            other => panic!("not an object: {other}"),
        }
    }

    struct Node {
        engine: Engine,
        system: Arc<dyn System>,
    }

    impl Node {
        fn new(system: impl System + 'static) -> Self {
            let system: Arc<dyn System> = Arc::new(system);
            Self {
                engine: Engine::new(Arc::clone(&system)),
                system,
            }
        }

        fn scratch() -> (tempfile::TempDir, Self) {
            let directory = tempfile::tempdir().unwrap();
            let node = Self::new(RealSystem::new(directory.path().to_owned()));
            (directory, node)
        }

        fn memory() -> Self {
            Self::new(FakeSystem::new().with_root("/scratch"))
        }

        fn write(&self, path: &str, content: &str, mode: u32) {
            let path = Path::new(path);
            for directory in path
                .ancestors()
                .skip(1)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
            {
                if self.system.metadata(directory).unwrap().is_none() {
                    self.system
                        .create_dir(directory, &Attributes::default())
                        .unwrap();
                }
            }
            let attributes = Attributes {
                mode: Some(mode),
                ..Attributes::default()
            };
            self.system
                .write(path, content.as_bytes(), &attributes)
                .unwrap();
        }

        fn text(&self, path: &str) -> String {
            String::from_utf8(self.system.read(Path::new(path), 1 << 20).unwrap()).unwrap()
        }

        fn try_apply(&self, kind: &str, title: &str, json: Json) -> Result<Outcome, EngineError> {
            let resource = self.engine.check(kind, title, &words(json))?;
            Ok(self.engine.apply(&resource, Cancel::default(), false))
        }

        /// Applies, expects success, expects nothing to do afterwards; returns `property: message` of every event.
        fn apply(&self, kind: &str, title: &str, json: Json) -> Vec<String> {
            let outcome = self.try_apply(kind, title, json.clone()).unwrap();
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let again = self.try_apply(kind, title, json).unwrap();
            assert!(
                again.events.is_empty() && again.error.is_none(),
                "{again:?}"
            );
            outcome
                .events
                .iter()
                .map(|event| format!("{}: {}", event.property, event.message))
                .collect()
        }

        fn error(&self, kind: &str, title: &str, json: Json) -> String {
            match self.try_apply(kind, title, json) {
                Ok(outcome) => outcome
                    .error
                    .map(|error| error.to_string())
                    .unwrap_or_default(),
                Err(error) => error.to_string(),
            }
        }
    }

    #[test]
    fn a_user_comes_changes_and_goes() {
        for node in [
            Node::scratch(),
            (tempfile::tempdir().unwrap(), Node::memory()),
        ] {
            let node = &node.1;
            assert_eq!(
                node.apply(
                    "user",
                    "rip",
                    json!({"comment": "R.I. Pienaar", "password": "$1$xxx"})
                ),
                ["ensure: created"]
            );
            let found = node.engine.find("user", "rip").unwrap();
            assert_eq!(found.get("uid"), Some(&Value::Int(1000)));
            assert_eq!(found.get("home"), Some(&Value::from("/home/rip")));
            assert_eq!(found.get("password"), Some(&Value::from("$1$xxx")));
            assert_eq!(
                node.text("/etc/passwd"),
                "rip:x:1000:1000:R.I. Pienaar:/home/rip:/bin/sh\n"
            );
            assert_eq!(node.text("/etc/group"), "rip:x:1000:\n");
            assert_eq!(
                node.apply(
                    "user",
                    "rip",
                    json!({"comment": "b", "uid": "1200", "expiry": "2030-12-31", "password_max_age": 90})
                ),
                [
                    "uid: uid changed 1000 to 1200",
                    "comment: comment changed 'R.I. Pienaar' to 'b'",
                    "password_max_age: password_max_age changed -1 to 90",
                    "expiry: defined 'expiry' as '2030-12-31'",
                ]
            );
            assert_eq!(
                node.apply("user", "rip", json!({"expiry": "absent"})),
                ["expiry: undefined 'expiry' from '2030-12-31'"]
            );
            assert_eq!(
                node.apply("user", "rip", json!({"ensure": "absent"})),
                ["ensure: removed"]
            );
            for file in ["/etc/passwd", "/etc/shadow", "/etc/group"] {
                assert_eq!(node.text(file), "", "{file}");
            }
        }
    }

    #[test]
    fn shadow_is_private_and_a_password_is_never_told() {
        let node = Node::memory();
        node.apply("user", "rip", json!({"password": "$6$secret-one"}));
        let shadow = node
            .system
            .metadata(Path::new("/etc/shadow"))
            .unwrap()
            .unwrap();
        assert_eq!(shadow.mode, 0o600);
        assert_eq!(node.text("/etc/shadow"), "rip:$6$secret-one:19675::::::\n");
        let wanted = json!({"password": "$6$secret-two", "comment": "x"});
        let resource = node.engine.check("user", "rip", &words(wanted)).unwrap();
        let planned = node.engine.apply(&resource, Cancel::default(), true);
        assert!(node.text("/etc/shadow").contains("secret-one"));
        let outcome = node.engine.apply(&resource, Cancel::default(), false);
        assert_eq!(planned.events.len(), outcome.events.len());
        for told in [format!("{planned:?}"), format!("{outcome:?}")] {
            assert!(!told.contains("secret"), "{told}");
        }
        let password = outcome
            .events
            .iter()
            .find(|event| event.property == "password")
            .unwrap();
        assert_eq!(password.message, "changed [redacted] to [redacted]");
        let error = node.error("user", "rip", json!({"password": "secret:three"}));
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn the_files_keep_what_is_not_ours() {
        let (_directory, node) = Node::scratch();
        node.write(
            "/etc/passwd",
            "# people\nroot:x:0:0:root:/root:/bin/sh\nold:x:1007:100::/home/old:/bin/sh\n+::::::\n",
            0o644,
        );
        node.write(
            "/etc/shadow",
            "root:*:1:0:99999:7:::\nold:!:1::::::\n",
            0o640,
        );
        node.write(
            "/etc/group",
            "root:x:0:\nusers:x:100:\nwheel:x:10:old\naudio:x:29:\n",
            0o644,
        );
        node.write(
            "/etc/gshadow",
            "root:*::\nusers:!::\nwheel:!:old:old\naudio:!::\n",
            0o640,
        );
        node.write(
            "/etc/login.defs",
            "PASS_MAX_DAYS 99999\nPASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n",
            0o644,
        );
        node.apply(
            "user",
            "rip",
            json!({"groups": ["wheel", "audio"], "shell": "/bin/zsh"}),
        );
        assert_eq!(
            node.text("/etc/passwd"),
            "# people\nroot:x:0:0:root:/root:/bin/sh\nold:x:1007:100::/home/old:/bin/sh\nrip:x:1008:1008::/home/rip:/bin/zsh\n+::::::\n"
        );
        assert_eq!(
            node.text("/etc/group"),
            "root:x:0:\nusers:x:100:\nwheel:x:10:old,rip\naudio:x:29:rip\nrip:x:1008:\n"
        );
        assert_eq!(
            node.text("/etc/gshadow"),
            "root:*::\nusers:!::\nwheel:!:old:old,rip\naudio:!::rip\nrip:!::\n"
        );
        let shadow = node.text("/etc/shadow");
        let rip = shadow
            .lines()
            .find(|line| line.starts_with("rip:"))
            .unwrap();
        assert!(
            rip.starts_with("rip:!:") && rip.ends_with(":0:99999:7:::"),
            "{rip}"
        );
        assert_eq!(
            node.system
                .metadata(Path::new("/etc/shadow"))
                .unwrap()
                .unwrap()
                .mode,
            0o640
        );
        node.apply("user", "old", json!({"ensure": "absent"}));
        node.apply("user", "rip", json!({"ensure": "absent"}));
        assert_eq!(
            node.text("/etc/passwd"),
            "# people\nroot:x:0:0:root:/root:/bin/sh\n+::::::\n"
        );
        assert_eq!(node.text("/etc/shadow"), "root:*:1:0:99999:7:::\n");
        assert_eq!(
            node.text("/etc/group"),
            "root:x:0:\nusers:x:100:\nwheel:x:10:\naudio:x:29:\n"
        );
        assert_eq!(
            node.text("/etc/gshadow"),
            "root:*::\nusers:!::\nwheel:!::\naudio:!::\n"
        );
    }

    #[test]
    fn membership_is_a_minimum_unless_said() {
        let node = Node::memory();
        for group in ["a", "b", "c"] {
            node.apply("group", group, json!({}));
        }
        node.apply("user", "rip", json!({"groups": "a"}));
        assert_eq!(
            node.apply("user", "rip", json!({"groups": ["b"]})),
            ["groups: groups changed ['a'] to ['a', 'b']"]
        );
        assert_eq!(
            node.apply(
                "user",
                "rip",
                json!({"groups": ["c", "b"], "membership": "inclusive"})
            ),
            ["groups: groups changed ['a', 'b'] to ['b', 'c']"]
        );
        let error = node.error("user", "rip", json!({"groups": ["nobodys"]}));
        assert!(error.contains("group 'nobodys' does not exist"), "{error}");
        node.apply(
            "user",
            "rip",
            json!({"groups": [], "membership": "inclusive"}),
        );
        assert_eq!(node.engine.find("user", "rip").unwrap().get("groups"), None);
    }

    #[test]
    fn a_primary_group_is_a_name_or_a_number() {
        let node = Node::memory();
        node.apply("group", "staff", json!({"gid": 50}));
        node.apply("user", "rip", json!({"gid": "staff"}));
        assert_eq!(
            node.engine.find("user", "rip").unwrap().get("gid"),
            Some(&Value::Int(50))
        );
        assert!(node.apply("user", "rip", json!({"gid": "50"})).is_empty());
        node.apply("group", "other", json!({"gid": "51"}));
        assert_eq!(
            node.apply("user", "rip", json!({"gid": "other"})),
            ["gid: gid changed 50 to 'other'"]
        );
        assert_eq!(
            node.apply("user", "rip", json!({"gid": 50})),
            ["gid: gid changed 51 to 50"]
        );
        assert!(
            node.error("user", "rip", json!({"gid": 77}))
                .contains("does not exist")
        );
        assert!(
            node.error("user", "new", json!({"gid": "none"}))
                .contains("does not exist")
        );
        assert!(node.engine.find("user", "new").unwrap().is_absent());
    }

    #[test]
    fn numbers_are_unique_unless_allowed() {
        let node = Node::memory();
        node.apply("user", "a", json!({"uid": 7}));
        assert!(
            node.error("user", "b", json!({"uid": 7}))
                .contains("UID 7 already exists")
        );
        node.apply("user", "b", json!({"uid": 7, "allowdupe": true}));
        node.apply("user", "daemon", json!({"system": true}));
        assert_eq!(
            node.engine.find("user", "daemon").unwrap().get("uid"),
            Some(&Value::Int(999))
        );
        assert!(
            node.error("group", "c", json!({"gid": 7}))
                .contains("GID 7 already exists")
        );
        node.apply("group", "c", json!({"gid": 7, "allowdupe": "true"}));
    }

    #[test]
    fn a_home_is_made_from_the_skeleton_and_removed() {
        let (directory, node) = Node::scratch();
        node.write("/etc/skel/.profile", "hello", 0o640);
        node.write("/etc/skel/bin/tool", "x", 0o755);
        node.write("/etc/login.defs", "HOME_MODE 0710\n", 0o644);
        node.system
            .symlink(Path::new("bin/tool"), Path::new("/etc/skel/link"))
            .unwrap();
        node.apply("user", "rip", json!({"uid": 4321, "managehome": true}));
        let home = directory.path().join("home/rip");
        let made = std::fs::metadata(&home).unwrap();
        assert_eq!(made.permissions().mode() & 0o7777, 0o710);
        assert_eq!(
            std::fs::read_to_string(home.join(".profile")).unwrap(),
            "hello"
        );
        assert_eq!(
            std::fs::read_link(home.join("link")).unwrap(),
            Path::new("bin/tool")
        );
        let owned = |path: &str| std::fs::symlink_metadata(home.join(path)).unwrap().uid();
        if std::fs::metadata(directory.path()).unwrap().uid() == 0 {
            assert_eq!([owned(""), owned("bin/tool"), owned("link")], [4321; 3]);
        }
        node.apply("user", "rip", json!({"uid": 4322}));
        if std::fs::metadata(directory.path()).unwrap().uid() == 0 {
            assert_eq!([owned(""), owned("bin/tool"), owned("link")], [4322; 3]);
        }
        node.apply(
            "user",
            "rip",
            json!({"ensure": "absent", "managehome": true}),
        );
        assert!(!home.exists());
        assert!(home.parent().unwrap().exists());
    }

    #[test]
    fn no_home_of_the_system_or_of_others_is_removed() {
        let node = Node::memory();
        node.write("/etc/keep", "x", 0o644);
        node.write("/srv/both/inner/keep", "x", 0o644);
        for home in ["/", "/etc", "/home", "/usr/games", "/var/lib", "/srv/both"] {
            node.apply("user", "other", json!({"home": "/srv/both/inner"}));
            node.apply("user", "rip", json!({"home": home, "managehome": true}));
            node.apply(
                "user",
                "rip",
                json!({"ensure": "absent", "managehome": true}),
            );
        }
        assert_eq!(node.text("/etc/keep"), "x");
        assert_eq!(node.text("/srv/both/inner/keep"), "x");
    }

    #[test]
    fn a_group_comes_changes_and_goes() {
        let node = Node::memory();
        assert_eq!(
            node.apply("group", "ops", json!({"gid": 3000, "members": ["b", "a"]})),
            ["ensure: created"]
        );
        assert_eq!(
            node.apply("group", "ops", json!({"members": ["c"]})),
            ["members: members changed ['a', 'b'] to ['a', 'b', 'c']"]
        );
        assert_eq!(
            node.apply(
                "group",
                "ops",
                json!({"members": ["c"], "auth_membership": true})
            ),
            ["members: members changed ['a', 'b', 'c'] to ['c']"]
        );
        node.apply("user", "rip", json!({"gid": "ops"}));
        assert_eq!(
            node.apply("group", "ops", json!({"gid": 3001})),
            ["gid: gid changed 3000 to 3001"]
        );
        assert_eq!(
            node.engine.find("user", "rip").unwrap().get("gid"),
            Some(&Value::Int(3001))
        );
        let error = node.error("group", "ops", json!({"ensure": "absent"}));
        assert!(error.contains("primary group of user 'rip'"), "{error}");
        node.apply("user", "rip", json!({"ensure": "absent"}));
        assert_eq!(
            node.apply("group", "ops", json!({"ensure": "absent"})),
            ["ensure: removed"]
        );
    }

    #[test]
    fn bad_values_are_refused_before_anything_is_touched() {
        let node = Node::memory();
        for (title, json) in [
            ("a:b", json!({})),
            ("-r", json!({})),
            ("x\ny", json!({})),
            ("rip", json!({"comment": "a:0:0"})),
            ("rip", json!({"comment": "a\nroot2:x:0:0"})),
            ("rip", json!({"home": "relative"})),
            ("rip", json!({"password": "a\nb"})),
            ("rip", json!({"uid": -1})),
            ("rip", json!({"uid": 4_294_967_295_u32})),
            ("rip", json!({"gid": "4294967295"})),
            ("rip", json!({"groups": ["a,b"]})),
            ("rip", json!({"groups": ["12"]})),
            ("rip", json!({"expiry": "2023-02-30"})),
            ("rip", json!({"membership": "all"})),
            ("rip", json!({"shel": "/bin/sh"})),
            ("rip", json!({"password_max_age": -2})),
        ] {
            let error = node.try_apply("user", title, json.clone()).unwrap_err();
            assert!(error.is_invalid(), "{json}: {error}");
        }
        assert!(node.try_apply("group", "x:y", json!({})).is_err());
        assert!(
            node.try_apply("group", "x", json!({"members": ["a:b"]}))
                .is_err()
        );
        assert_eq!(node.system.metadata(Path::new("/etc")).unwrap(), None);
    }

    #[test]
    fn a_failed_write_leaves_the_user_to_be_created_again() {
        let system = FakeSystem::new().with_root("/scratch");
        let node = Node::new(system.clone());
        system.fail("/etc/shadow", "write");
        let error = node.error("user", "rip", json!({"managehome": true}));
        assert!(error.contains("write the users and groups"), "{error}");
        assert!(node.engine.find("user", "rip").unwrap().is_absent());
        system.heal();
        assert_eq!(
            node.apply("user", "rip", json!({"managehome": true})),
            ["ensure: created"]
        );
    }

    #[test]
    fn a_hundred_at_once_leave_valid_files() {
        let (_directory, node) = Node::scratch();
        node.apply("group", "all", json!({}));
        std::thread::scope(|scope| {
            for number in 0..100 {
                let node = &node;
                scope.spawn(move || {
                    let name = format!("user{number}");
                    let outcome = node
                        .try_apply("user", &name, json!({"groups": "all", "comment": name}))
                        .unwrap();
                    assert!(outcome.error.is_none(), "{:?}", outcome.error);
                });
            }
        });
        let users = node.engine.search("user").unwrap();
        assert_eq!(users.len(), 100);
        let uids: std::collections::BTreeSet<_> = users
            .iter()
            .map(|(_, values)| values["uid"].clone())
            .collect();
        assert_eq!(uids.len(), 100);
        for (name, values) in &users {
            assert_eq!(values["comment"], Value::from(name.as_str()));
            assert_eq!(values["groups"], Value::List(vec!["all".to_owned()]));
        }
        assert_eq!(node.text("/etc/shadow").lines().count(), 100);
    }

    fn any_user() -> impl Strategy<Value = Json> {
        let some = |strategy: BoxedStrategy<Json>| proptest::option::of(strategy).boxed();
        let days = || (-1_i64..100).prop_map(Json::from).boxed();
        (
            some("[ -9;-~é]{0,12}".prop_map(Json::from).boxed()),
            some((1100_u32..1200).prop_map(Json::from).boxed()),
            some(
                proptest::sample::select(vec!["g1", "g2", "5001"])
                    .prop_map(Json::from)
                    .boxed(),
            ),
            some(
                proptest::sample::subsequence(vec!["g1", "g2", "g3"], 0..=3)
                    .prop_map(|g| json!(g))
                    .boxed(),
            ),
            some("/home/[a-z]{1,5}".prop_map(Json::from).boxed()),
            some("\\$6\\$[a-zA-Z0-9./$]{1,20}".prop_map(Json::from).boxed()),
            (some(days()), some(days()), some(days())),
            some(
                proptest::sample::select(vec!["absent", "2031-01-01", "1999-12-31"])
                    .prop_map(Json::from)
                    .boxed(),
            ),
            (
                proptest::bool::ANY,
                proptest::bool::ANY,
                proptest::bool::ANY,
            ),
        )
            .prop_map(
                |(comment, uid, gid, groups, home, password, ages, expiry, flags)| {
                    let membership = if flags.0 { "inclusive" } else { "minimum" };
                    let mut words = Map::from_iter([
                        ("membership".to_owned(), json!(membership)),
                        ("managehome".to_owned(), json!(flags.1)),
                        ("system".to_owned(), json!(flags.2)),
                        ("allowdupe".to_owned(), json!(true)),
                    ]);
                    let given = [
                        ("comment", comment),
                        ("uid", uid),
                        ("gid", gid),
                        ("groups", groups),
                        ("home", home),
                        ("password", password),
                        ("password_min_age", ages.0),
                        ("password_max_age", ages.1),
                        ("password_warn_days", ages.2),
                        ("expiry", expiry),
                    ];
                    words.extend(
                        given
                            .into_iter()
                            .filter_map(|(name, word)| Some((name.to_owned(), word?))),
                    );
                    Json::Object(words)
                },
            )
    }

    fn settles(node: &Node, steps: &[(String, Json)]) {
        for group in ["g1", "g2", "g3"] {
            node.apply("group", group, json!({}));
        }
        node.apply("group", "g4", json!({"gid": 5001}));
        for (name, wanted) in steps {
            node.apply("user", name, wanted.clone());
        }
        for name in ["a", "b"] {
            node.apply(
                "user",
                name,
                json!({"ensure": "absent", "managehome": true}),
            );
        }
        assert_eq!(node.text("/etc/passwd") + &node.text("/etc/shadow"), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_was_applied_needs_nothing_more(steps in proptest::collection::vec(("[ab]", any_user()), 1..5)) {
            settles(&Node::memory(), &steps);
        }

        #[test]
        fn nor_does_it_on_a_disk(steps in proptest::collection::vec(("[ab]", any_user()), 1..3)) {
            settles(&Node::scratch().1, &steps);
        }
    }

    /// A host whose programs all succeed and do nothing.
    fn host() -> (FakeSystem, Node) {
        let system = FakeSystem::new();
        for program in [
            "useradd", "usermod", "userdel", "chage", "chpasswd", "groupadd", "groupmod",
            "groupdel", "gpasswd",
        ] {
            system.answer(&[program], Output::new(0, ""));
        }
        system.answer(&["getent"], Output::new(2, ""));
        system.file("/etc/passwd", "old:x:1000:100:c:/home/old:/bin/sh\n");
        system.file("/etc/shadow", "old:!:1:0:99999:7:::\n");
        system.file("/etc/group", "users:x:100:\nwheel:x:10:old\nnamed:x:77:\n");
        system.file("/bin/sh", "#!");
        let executable = Attributes {
            mode: Some(0o755),
            ..Attributes::default()
        };
        system
            .set_attributes(Path::new("/bin/sh"), &executable)
            .unwrap();
        let node = Node::new(system.clone());
        (system, node)
    }

    /// The commands of one apply, those that only look left out.
    fn commands(kind: &str, title: &str, json: Json) -> Vec<String> {
        let (system, node) = host();
        let outcome = node.try_apply(kind, title, json).unwrap();
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let mut lines = system.lines();
        lines.retain(|line| !line.starts_with("getent"));
        lines
    }

    #[test]
    fn the_tools_are_called_as_puppet_calls_them() {
        assert_eq!(
            commands(
                "user",
                "rip",
                json!({
                    "uid": 1234, "gid": "users", "groups": ["wheel", "named"], "comment": "R I P", "home": "/srv/rip",
                    "shell": "/bin/sh", "password": "$1$xxx", "password_min_age": 1, "password_max_age": 90,
                    "password_warn_days": 5, "expiry": "2030-12-31", "managehome": true, "system": true, "allowdupe": true,
                })
            ),
            [
                "useradd -c R I P -e 2030-12-31 -g users -G named,wheel -d /srv/rip -s /bin/sh -u 1234 -o -m -r rip",
                "chpasswd -e",
                "chage -m 1 -M 90 -W 5 rip",
            ]
        );
        assert_eq!(commands("user", "rip", json!({})), ["useradd -M rip"]);
        // The group is there already.
        assert_eq!(
            commands("user", "named", json!({})),
            ["useradd -g named -M named"]
        );
        assert_eq!(
            commands(
                "user",
                "old",
                json!({
                    "uid": 7, "gid": "wheel", "comment": "new", "home": "/srv", "shell": "/bin/sh", "password": "$1$yyy",
                    "password_min_age": 1, "password_max_age": 2, "password_warn_days": 3, "groups": "named",
                    "expiry": "2030-12-31", "allowdupe": true,
                })
            ),
            [
                "usermod -d /srv old",
                "usermod -u 7 -o old",
                "usermod -g wheel old",
                "usermod -c new old",
                "chpasswd -e",
                "chage -m 1 old",
                "chage -M 2 old",
                "chage -W 3 old",
                "usermod -G named,wheel old",
                "usermod -e 2030-12-31 old",
            ]
        );
        assert_eq!(
            commands("user", "old", json!({"ensure": "absent"})),
            ["userdel old"]
        );
        assert_eq!(
            commands(
                "user",
                "old",
                json!({"ensure": "absent", "managehome": true})
            ),
            ["userdel -r old"]
        );
        assert_eq!(
            commands(
                "group",
                "ops",
                json!({"gid": 5, "members": ["old"], "system": true, "allowdupe": true})
            ),
            ["groupadd -g 5 -o -r ops", "gpasswd -M old ops"]
        );
        assert_eq!(
            commands("group", "wheel", json!({"gid": 11})),
            ["groupmod -g 11 wheel"]
        );
        assert_eq!(
            commands(
                "group",
                "wheel",
                json!({"members": [], "auth_membership": true})
            ),
            ["gpasswd -M  wheel"]
        );
        assert_eq!(
            commands("group", "wheel", json!({"ensure": "absent"})),
            ["groupdel wheel"]
        );
    }

    #[test]
    fn a_password_goes_through_standard_input_unchanged() {
        let (system, node) = host();
        let password = "$6$rounds=5000$a.b/c$`echo`'\"\\";
        node.try_apply("user", "rip", json!({"password": password}))
            .unwrap();
        node.try_apply("user", "old", json!({"password": password}))
            .unwrap();
        let given: Vec<String> = system
            .commands()
            .into_iter()
            .filter(|command| !command.stdin.is_empty())
            .map(|command| String::from_utf8(command.stdin).unwrap())
            .collect();
        assert_eq!(
            given,
            [format!("rip:{password}\n"), format!("old:{password}\n")]
        );
        for command in system.commands() {
            assert!(!command.argv.join(" ").contains("rounds"), "{command:?}");
            assert!(!format!("{command:?}").contains("rounds"));
        }
    }

    #[test]
    fn a_tool_that_says_no_is_heard() {
        let (system, node) = host();
        system.answer(
            &["useradd"],
            Output::new(9, "useradd: user 'rip' already exists\n"),
        );
        let outcome = node.try_apply("user", "rip", json!({})).unwrap();
        let error = outcome.error.unwrap().to_string();
        assert_eq!(
            error,
            "User[rip]: `useradd` ended with code 9: useradd: user 'rip' already exists"
        );
        let error = node.error("user", "rip", json!({"shell": "/bin/none"}));
        assert!(error.contains("Shell /bin/none must exist"), "{error}");
        system.file("/bin/text", "x");
        let error = node.error("user", "old", json!({"shell": "/bin/text"}));
        assert!(
            error.contains("Shell /bin/text must be executable"),
            "{error}"
        );
    }

    #[test]
    fn the_name_service_is_asked_unless_local_is_said() {
        let (system, node) = host();
        system.answer(
            &["getent", "--", "passwd", "ldap"],
            Output::new(0, "ldap:*:9999:100:L:/home/ldap:/bin/sh\n"),
        );
        let found = node.engine.find("user", "ldap").unwrap();
        assert_eq!(found.get("uid"), Some(&Value::Int(9999)));
        assert_eq!(found.get("password"), None);
        let local = node
            .engine
            .check("user", "ldap", &words(json!({"forcelocal": true})))
            .unwrap();
        assert_eq!(
            node.engine
                .plan(&local, Cancel::default())
                .unwrap()
                .changes
                .len(),
            1
        );
        let either = node
            .engine
            .check("user", "ldap", &words(json!({})))
            .unwrap();
        assert!(
            node.engine
                .plan(&either, Cancel::default())
                .unwrap()
                .is_empty()
        );
    }
}
