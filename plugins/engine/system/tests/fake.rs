//! What only the fake machine can do: scripts, recordings, a clock, failures on order.

#[cfg(test)]
mod fake {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use muster_system::fake::FakeSystem;
    use muster_system::{Attributes, Command, Output, System};

    #[test]
    fn programs_are_scripted_and_recorded() {
        let system = FakeSystem::new();
        assert!(
            system
                .run(&Command::new(["useradd", "rip"]))
                .unwrap_err()
                .is_not_found()
        );
        system.answer(&["useradd"], Output::new(9, "exists"));
        system.on(&["useradd", "rip"], |system, _| {
            system.file("/etc/passwd", "rip");
            Output::new(0, "")
        });
        assert_eq!(system.run(&Command::new(["useradd", "x"])).unwrap().code, 9);
        assert!(
            system
                .run(&Command::new(["useradd", "rip", "-m"]))
                .unwrap()
                .success()
        );
        assert_eq!(system.text("/etc/passwd"), "rip");
        assert_eq!(
            system.lines(),
            ["useradd rip", "useradd x", "useradd rip -m"]
        );
    }

    #[test]
    fn failures_come_on_order() {
        let system = FakeSystem::new();
        system.file("/etc/shadow", "x");
        system.fail("/etc/shadow", "write");
        let path = Path::new("/etc/shadow");
        let error = system
            .write(path, b"y", &Attributes::default())
            .unwrap_err();
        assert_eq!(error.to_string(), "cannot write /etc/shadow");
        assert_eq!(system.text("/etc/shadow"), "x");
        system.heal();
        system.write(path, b"y", &Attributes::default()).unwrap();
    }

    #[test]
    fn the_clock_stands_still() {
        let system = FakeSystem::new();
        assert_eq!(system.now(), system.now());
        let later = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
        system.set_now(later);
        assert_eq!(system.now(), later);
    }
}
