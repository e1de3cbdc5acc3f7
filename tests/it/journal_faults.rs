//! Faults of the disk below a real gateway: a full file system, a folder that takes no journal, a sync that fails. No
//! call reaches its server without a record.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use audit::entry::Kind;
use audit::verify::{DirSource, Options, verify};
use tollgate_tests::client::Client;
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Answer;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{self, LONG};

use crate::journal::{begin, folder, log, of, records};

/// A small file system in memory, for as long as this is held.
struct Small(PathBuf);

impl Small {
    /// `None` without the right to mount, which root has.
    fn mount(at: &Path, options: &str) -> Option<Small> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not root, so no file system can be mounted: nothing was tested");
            return None;
        }
        std::fs::create_dir_all(at).expect("the mount point");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
        assert!(done.expect("mount runs").success(), "no file system of memory at {}", at.display());
        Some(Small(at.to_owned()))
    }

    /// Takes all space that is left; dropped, and the file removed, it is there again.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut ballast = File::create(&path).expect("a file");
        // By pages and then by bytes, to the last one.
        for piece in [&[0; 4096][..], &[0; 1]] {
            while ballast.write_all(piece).is_ok() {}
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn call(gateway: &Gateway) -> Answer {
    gateway.modern().server("up").call("echo", r#"{"text":"x"}"#)
}

fn assert_whole(dir: &Path) {
    let report = verify(&DirSource::new(log(dir)), &Options::default());
    assert_eq!(report.verdict.name(), "OK_UNPINNED", "{report:?}");
}

#[test]
fn z4_a_full_disk_refuses_calls_and_takes_them_again_by_itself() {
    let dir = folder();
    let Some(disk) = Small::mount(&dir.path().join("var"), "size=2m") else { return };
    let up = Scripted::json(Peer::modern("up"));
    let gateway = begin(&up, "", &dir).start();
    assert_eq!(call(&gateway).status, 200);
    let ballast = disk.fill();
    // The last page of the journal may have room for a few.
    let refused = (0..200).map(|_| call(&gateway)).find(|answer| answer.status != 200);
    let refused = refused.expect("a refusal");
    let before = up.count("tools/call");
    for answer in std::iter::once(refused).chain((0..10).map(|_| call(&gateway))) {
        assert_eq!((answer.status, answer.code()), (503, Some(7008)), "{}", answer.text());
        assert!(answer.header("retry-after").is_some_and(|after| after.parse::<u32>().is_ok()));
    }
    assert_eq!(up.count("tools/call"), before, "a call went out unrecorded");
    std::fs::remove_file(ballast).expect("removed");
    wait::until("a call without anybody's help", || call(&gateway).status == 200);
    gateway.assert_alive();
    gateway.sigterm();
    assert!(gateway.wait(LONG).success(), "{}", gateway.log());
    let entries = records(&log(dir.path()));
    let (intents, outcomes) = (of(&entries, Kind::Intent).len(), of(&entries, Kind::Outcome).len());
    assert_eq!((intents, outcomes), (up.count("tools/call"), intents));
    assert_whole(dir.path());
}

#[test]
fn z4_in_strict_mode_no_client_waits_for_space_that_an_outcome_needs() {
    let dir = folder();
    let Some(disk) = Small::mount(&dir.path().join("var"), "size=2m") else { return };
    let open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&open);
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, _| {
        if seen.is("tools/call") {
            wait::until("the disk to be full", || opened.load(Ordering::SeqCst));
        }
        false
    });
    let gateway = begin(&up, "audit: { durability: strict }\n", &dir).start();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..12).map(|_| scope.spawn(|| call(&gateway))).collect();
        wait::until("all calls at the server", || up.count("tools/call") == 12);
        let ballast = disk.fill();
        open.store(true, Ordering::SeqCst);
        let answers: Vec<Answer> = calls.into_iter().map(|call| call.join().expect("an answer")).collect();
        // The last page of the journal may have room for a few.
        assert!(answers.iter().any(|answer| answer.code() == Some(7008)));
        for answer in answers.iter().filter(|answer| answer.code() != Some(7008)) {
            assert!(answer.status == 200 && answer.code().is_none(), "{}", answer.text());
        }
        std::fs::remove_file(ballast).expect("removed");
    });
    wait::until("a call without anybody's help", || call(&gateway).status == 200);
    gateway.sigterm();
    assert!(gateway.wait(LONG).success(), "{}", gateway.log());
    let entries = records(&log(dir.path()));
    let (intents, outcomes) = (of(&entries, Kind::Intent).len(), of(&entries, Kind::Outcome).len());
    assert_eq!(
        (intents, outcomes),
        (up.count("tools/call"), intents),
        "an outcome was kept until there was space"
    );
    assert_whole(dir.path());
}

#[test]
fn z4_a_folder_that_takes_no_journal_keeps_the_gateway_from_starting() {
    let up = Scripted::json(Peer::modern("up"));
    let dir = folder();
    std::fs::write(dir.path().join("taken"), b"").expect("a file");
    let why = begin(&up, "audit: { dir: ./taken/audit }\n", &dir).attempt().err().expect("no start");
    assert!(why.contains("tollgate: journal: ") && why.contains("taken/audit: Not a directory"), "{why}");
    let Some(_disk) = Small::mount(&dir.path().join("var"), "size=1m,ro") else { return };
    let why = begin(&up, "", &dir).attempt().err().expect("no start");
    assert!(why.contains("tollgate: journal: ") && why.contains("Read-only file system"), "{why}");
    assert_eq!(up.calls(), 0);
}

/// The library whose syncs fail.
fn failing_sync(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/journal_faults/failing-sync.c");
    let library = dir.join("failing-sync.so");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(made.expect("a C compiler runs").success());
    library
}

#[test]
fn z5_a_failed_sync_ends_the_gateway_and_no_call_goes_out_on_it() {
    for durability in ["buffered", "strict"] {
        let up = Scripted::json(Peer::modern("up"));
        let dir: Arc<tempfile::TempDir> = folder();
        let (library, trigger) = (failing_sync(dir.path()), dir.path().join("trigger"));
        let head = format!("audit: {{ durability: {durability} }}\n");
        let start = begin(&up, &head, &dir).env("LD_PRELOAD", &library.to_string_lossy());
        let gateway = start.env("FAIL_SYNC", &trigger.to_string_lossy()).start();
        assert_eq!(call(&gateway).status, 200);
        let before = up.count("tools/call");
        std::fs::write(&trigger, b"").expect("the trigger");
        let client = gateway.modern().server("up");
        let request = client.request("tools/call", r#"{"name":"echo","arguments":{"text":"x"}}"#);
        let answer = request.try_send(gateway.addr);
        assert_eq!(gateway.wait(LONG).code(), Some(1), "{durability}: {}", gateway.log());
        let said = gateway.log();
        assert!(said.contains("the journal is lost to this process, so it ends: a sync failed"), "{said}");
        if durability == "strict" {
            assert_eq!(up.count("tools/call"), before, "a call went out whose intent was not synced");
            assert!(answer.map_or(true, |answer| answer.code() == Some(7008)));
        }
        // What the failed sync left is looked at by the next start, and never by this process.
        std::fs::remove_file(&trigger).expect("removed");
        let again = begin(&up, &head, &dir).start();
        assert_eq!(call(&again).status, 200, "{}", again.log());
        again.sigterm();
        assert!(again.wait(LONG).success());
        assert_whole(dir.path());
    }
}
