//! The program as people call it: `explain` in every form, and a log that is recovered by every method.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn reprise(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reprise")).args(arguments).output().unwrap()
}

/// What a command that succeeds prints.
pub fn printed(arguments: &[&str]) -> String {
    let output = reprise(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn bank() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.sql");
    file.to_str().unwrap().to_owned()
}

/// What a command says that refuses.
pub fn refused(arguments: &[&str]) -> String {
    let output = reprise(arguments);
    assert!(!output.status.success(), "{arguments:?} is not refused");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn explain_shows_the_bank_in_every_form() {
    let bank = bank();
    let text = printed(&["explain", &bank]);
    assert!(text.contains("block 2: transfer.2, deposit.1 after 1"), "{text}");
    // Its keys are known once block 1 has read them (PACMAN, Figure 5).
    assert!(text.contains("one key of current_pkey (name) after 1, written"), "{text}");
    assert!(text.contains("block 2: by name of several rows"), "{text}");
    assert!(text.contains("block 4: by nation"), "{text}");
    // Whose account gets the money is read first, so the accounts of all are reserved.
    let batches = text.split_once("  a call of transfer\n").expect("its reservations").1;
    assert!(batches.contains("    looks up one key of spouse_pkey (name)\n"), "{text}");
    assert!(batches.contains("    updates all keys of current_pkey\n"), "{text}");

    let json: Value = serde_json::from_str(&printed(&["explain", &bank, "--format", "json"])).unwrap();
    assert_eq!(json["blocks"].as_array().unwrap().len(), 4);
    assert_eq!(json["edges"], serde_json::json!([[0, 1], [1, 2], [1, 3]]));
    assert!(json["procedures"][0]["reservations"].as_array().is_some_and(|own| !own.is_empty()));

    let dot = printed(&["explain", &bank, "--format", "dot"]);
    assert_eq!(dot.matches("subgraph").count(), 3, "two procedures and the global graph: {dot}");

    let svg = printed(&["explain", &bank, "--format", "svg"]);
    for name in ["block 4", "transfer.3", "deposit.3"] {
        assert!(svg.contains(name), "{name} is in the picture");
    }
    assert_eq!(svg.matches("marker-end").count(), 3, "three arrows");
    let one = printed(&["explain", &bank, "--format", "svg", "--procedure", "deposit"]);
    assert!(one.contains("deposit.2") && !one.contains("transfer"), "one procedure alone");
}

#[test]
fn explain_shows_code() {
    let text = printed(&["explain", &bank(), "--code"]);
    let transfer = text.lines().find(|line| line.starts_with("transfer: ")).expect("its code");
    assert!(transfer.contains(" bytes, compiled in "), "{text}");
    assert!(!text.contains("interpreted"), "everything in the bank is compiled: {text}");
    let tpcc = printed(&["explain", "--workload", "tpcc", "--code", "--format", "json"]);
    let tpcc: Value = serde_json::from_str(&tpcc).unwrap();
    let new_order = tpcc.as_array().unwrap().iter().find(|own| own["name"] == "new_order").unwrap();
    assert!(new_order["bytes"].as_u64().unwrap() > 1000, "{new_order}");
    assert_eq!(new_order["interpreted"], serde_json::json!(["RAISE"]));
    assert!(refused(&["explain", &bank(), "--code", "--format", "svg"]).contains("--code"));
}

#[test]
fn explain_says_what_is_wrong() {
    assert!(refused(&["explain", "no-such-file.sql"]).contains("no-such-file.sql"));
    let bank = bank();
    let unknown = refused(&["explain", &bank, "--format", "svg", "--procedure", "withdraw"]);
    assert!(unknown.contains("withdraw"), "{unknown}");
}

#[test]
fn a_crashed_log_is_recovered_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let bench = ["bench", "tpcc", "--transactions", "3000", "--workers", "2", "--ad-hoc", "30"];
    // It ends by SIGKILL, so its status says nothing.
    let output = reprise(&[&bench[..], &["--data", data, "--crash", "--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["committed"].as_u64().unwrap() > 2_500, "{report}");

    let mut digests = Vec::new();
    for (method, mode, threads) in [
        ("clr", "pipelined", "1"),
        ("clr-p", "chopping", "2"),
        ("clr-p", "static", "2"),
        ("clr-p", "synchronous", "2"),
        ("clr-p", "pipelined", "2"),
        ("auto", "pipelined", "3"),
    ] {
        let how = ["recover", data, "--method", method, "--mode", mode, "--threads", threads, "--json"];
        let report: Value = serde_json::from_str(&printed(&how)).unwrap();
        let expected = if method == "auto" { "clr-p" } else { method };
        assert_eq!(report["method"], expected);
        if expected == "clr-p" {
            let breakdown = &report["breakdown"];
            assert_eq!(breakdown["threads"].as_array().unwrap().len().to_string(), threads);
            assert!(breakdown["predicted_parallelism"].as_f64().unwrap() >= 1.0);
            let seconds = |moment: &str| report[moment].as_f64().unwrap();
            let (first, all) = (seconds("expected_first_commit_s"), seconds("expected_recovered_s"));
            assert!(0.0 < first && first < seconds("total_s") && first < all, "{report}");
        }
        digests.push(report["digest"].as_str().unwrap().to_owned());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "one state by all methods");

    let explained = printed(&["recover", data, "--explain", "--threads", "2"]);
    for part in [
        "predicted: critical path",
        "measured:  critical path",
        "payment.1",
        "thread 2:",
        "expected on demand:",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
}

/// A copy of a folder is opened and works; the folder stays as it was.
#[test]
fn a_workload_runs_while_a_copy_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let [data, drawing] = ["data", "timeline.svg"].map(|name| folder.path().join(name));
    let (data, drawing) = (data.to_str().unwrap(), drawing.to_str().unwrap());
    for content in ["command", "physical"] {
        let data = &format!("{data}-{content}");
        let bench = ["bench", "tpcc", "--transactions", "5000", "--data", data, "--log", content, "--crash"];
        reprise(&bench);
        let recovered = || {
            let report: Value = serde_json::from_str(&printed(&["recover", data, "--json"])).unwrap();
            (report["digest"].clone(), report["transactions"].clone())
        };
        let before = recovered();
        for on_demand in ["on", "off"] {
            let opening =
                ["bench", "opening", data, "--workload", "tpcc", "--log", content, "--seconds", "0.3"];
            let how = ["--on-demand", on_demand, "--timeline", drawing, "--json"];
            let report: Value = serde_json::from_str(&printed(&[&opening[..], &how].concat())).unwrap();
            let number = |field: &str| report[field].as_f64().unwrap_or_else(|| panic!("{field}: {report}"));
            assert!(number("open_s") <= number("first_commit_s"), "{report}");
            assert_eq!(number("open_s") < number("recovered_s"), on_demand == "on", "{report}");
            let seconds = report["timeline"].as_array().unwrap();
            let committed: u64 = seconds.iter().filter_map(|second| second["committed"].as_u64()).sum();
            assert!(committed > 0 && committed as f64 >= number("served"), "{report}");
            assert!(std::fs::read_to_string(drawing).unwrap().contains("</svg>"));
            std::fs::remove_file(drawing).unwrap();
        }
        assert_eq!(recovered(), before, "only a copy is written");
    }
}

#[test]
fn every_log_of_a_run_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let bench = ["bench", "smallbank", "--transactions", "3000", "--workers", "2", "--data", data];
    let shadows = ["logical", "physical", "physiological"].map(|content| ["--shadow-log", content]).concat();
    let output = reprise(&[&bench[..], &shadows[..], &["--crash", "--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["shadow_logs"].as_object().unwrap().len(), 3, "{report}");
    assert!(!report["timeline"].as_array().unwrap().is_empty(), "{report}");

    let shadow = |content: &str| format!("{data}/shadow-{content}");
    let (logical, physical) = (shadow("logical"), shadow("physical"));
    let physiological = shadow("physiological");
    let mut digests = Vec::new();
    for (log, method) in [
        (data, "clr-p"),
        (&logical, "llr"),
        (&logical, "llr-p"),
        (&physical, "plr"),
        (&physiological, "aries"),
    ] {
        let report: Value =
            serde_json::from_str(&printed(&["recover", log, "--method", method, "--json"])).unwrap();
        assert_eq!(report["method"], method);
        assert!(report["record_bytes"].as_u64().unwrap() > 0, "{report}");
        digests.push(report["digest"].as_str().unwrap().to_owned());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "one state of all logs");
    assert!(refused(&["recover", &physical, "--method", "clr"]).contains("plr does"));
    assert!(printed(&["log", &physiological, "--dump"]).contains("committed"));
    assert!(printed(&["log", &physical, "--dump"]).contains("by slot"));

    // Without latches only how long it takes is told.
    let unlatched = ["bench", "recovery", &logical, "--method", "llr", "--latches", "off", "--json"];
    let report: Value = serde_json::from_str(&printed(&unlatched)).unwrap();
    assert_eq!((&report["latches"], &report["digest"]), (&Value::Bool(false), &Value::Null));
    assert!(
        refused(&["bench", "recovery", data, "--method", "clr", "--latches", "off"]).contains("llr and plr")
    );
    assert!(refused(&["recover", &logical, "--latches", "off"]).contains("--latches"));
}

#[test]
fn a_log_that_can_not_be_is_refused() {
    fn run<'a>(log: &[&'a str]) -> Vec<&'a str> {
        [&["bench", "smallbank", "--transactions", "10"], log].concat()
    }
    assert!(refused(&run(&["--log", "physical", "--differential", "on"])).contains("whole rows"));
    assert!(refused(&run(&["--log", "command", "--no-undo"])).contains("not command ones"));
    assert!(refused(&run(&["--log", "logistical"])).contains("known are: off, command"));
    let adaptive = printed(&run(&["--log", "adaptive", "--recovery-target", "5"]));
    assert!(adaptive.contains("log adaptive"), "{adaptive}");
}

/// The text of a procedure that the analysis does not support names the cause.
#[test]
fn explain_tells_what_is_logged_by_value() {
    let bodies = [
        (
            "SELECT count(*) INTO n FROM t x JOIN t y ON y.b = x.a; UPDATE t SET b = n;",
            "has queries with plans",
        ),
        ("UPDATE t SET b = (SELECT max(b) FROM t);", "has queries with plans"),
        ("FOR n IN SELECT b FROM t GROUP BY b LOOP UPDATE t SET b = n; END LOOP;", "has queries with plans"),
        ("BEGIN UPDATE t SET b = 1; EXCEPTION WHEN OTHERS THEN NULL; END;", "has an EXCEPTION clause"),
        ("OPEN c FOR SELECT b FROM t; FETCH c INTO n; UPDATE t SET b = n;", "uses cursors"),
        ("EXECUTE 'UPDATE t SET b = 1';", "uses EXECUTE"),
        ("UPDATE t SET b = 1; COMMIT;", "uses COMMIT or ROLLBACK"),
        ("UPDATE t SET b = 1; GET DIAGNOSTICS n = ROW_COUNT;", "uses ROW_COUNT"),
        ("UPDATE t SET b = nextval('s');", "uses sequences"),
        ("CALL p0();", "calls \"p0\", which is logged by value"),
    ];
    let mut script = "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL); CREATE SEQUENCE s;".to_owned();
    for (number, (body, _)) in bodies.iter().enumerate() {
        let declared = "DECLARE n INT; c refcursor; BEGIN";
        script += &format!("CREATE PROCEDURE p{number}() LANGUAGE plpgsql AS $$ {declared} {body} END $$;");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.sql");
    std::fs::write(&file, script).unwrap();
    let file = file.to_str().unwrap();
    let text = printed(&["explain", file]);
    for (number, (body, cause)) in bodies.iter().enumerate() {
        let line = format!("p{number} {cause}: its calls are logged by value");
        assert!(text.contains(&line), "{body}: {line}\n{text}");
    }
    let json: Value = serde_json::from_str(&printed(&["explain", file, "--format", "json"])).unwrap();
    assert_eq!(json["procedures"][0]["by_value"], true);
}

/// A crash under each sequencing: the folder is recovered by the method of the log, and the log beside it to
/// the same state.
#[test]
fn every_sequencing_recovers_from_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [
        ("serial", "llr", Some("command")),
        ("epoch", "llr-p", Some("command")),
        ("gsn", "llr", Some("command")),
        ("ssn", "poplar", None),
        ("ssn", "llr", Some("physical")),
    ];
    for (place, (sequencing, method, shadow)) in runs.into_iter().enumerate() {
        let path = |name: &str| folder.path().join(format!("{place}-{name}")).to_str().unwrap().to_owned();
        let (data, devices) = (path("data"), [path("a"), path("b")]);
        let mut bench = vec![
            "bench",
            "ycsb",
            "--mix",
            "f",
            "--transactions",
            "3000",
            "--workers",
            "2",
            "--log",
            "logical",
        ];
        bench.extend(["--sequencing", sequencing, "--data", &data, "--crash", "--json"]);
        for device in &devices[..if sequencing == "serial" { 1 } else { 2 }] {
            bench.extend(["--log-device", device]);
        }
        bench.extend(shadow.into_iter().flat_map(|content| ["--shadow-log", content]));
        let output = reprise(&bench);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{bench:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
        });
        assert_eq!(report["sequencing"], sequencing);
        let recover = |folder: &str, method: &str| -> Value {
            serde_json::from_str(&printed(&["recover", folder, "--method", method, "--json"])).unwrap()
        };
        let recovered = recover(&data, method);
        assert_eq!(recovered["method"], method);
        assert!(recovered["transactions"].as_u64().unwrap() > 1_000, "{recovered}");
        if let Some(content) = shadow {
            let beside = recover(&format!("{data}/shadow-{content}"), "auto");
            assert_eq!(beside["digest"], recovered["digest"], "{sequencing}: {content} beside logical");
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |options: &[&str]| refused(&[&["bench", "ycsb", "--transactions", "10"], options].concat());
    for (options, why) in [
        (
            ["--log", "command", "--sequencing", "ssn"],
            "ssn does not order who overwrites what another one has read",
        ),
        (["--log", "physiological", "--sequencing", "gsn"], "numbered by one clock"),
        (["--log", "logical", "--sequencing", "lsn"], "known are: serial, epoch, ssn, gsn"),
        (["--log", "logical", "--log-io", "tape"], "known are: buffered, direct, memory:NANOSECONDS"),
        (["--log", "logical", "--mix", "z"], "unknown mix \"z\" of ycsb"),
        (["--operations", "10", "--mix", "e"], "only the mixes a, b, c and f"),
        (["--skew", "0.6", "--mix", "a@uniform"], "uniform keys have no skew"),
    ] {
        let text = refused(&options);
        assert!(text.contains(why), "{options:?}: {text}");
    }
}
