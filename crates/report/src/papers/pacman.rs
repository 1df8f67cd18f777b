//! Figures and tables of PACMAN.

use crate::experiment::{Axis, Chart, EMPTY, Experiment, Kind, Panel, Published, Series};
use crate::measures::{
    BREAKDOWN, CHECKPOINT, CHECKPOINT_FILES, LATENCY, LOG_BYTES, LOG_LOADING, LOG_RATE, LOG_RECOVERY,
    LOG_WRITTEN, RECOVERY, REPLAY, REPLAYED, STAGES, THROUGHPUT, TIMELINE,
};

const TPCC: Panel = Panel { name: "TPC-C", arguments: &["tpcc"], scale: 2 };
const TPCC_WRITE: Panel = Panel { name: "TPC-C", arguments: &["tpcc", "--mix", "write"], scale: 4 };
const SMALLBANK: Panel = Panel { name: "Smallbank", arguments: &["smallbank"], scale: 1 };

/// One log device, and two. The devices are folders of one disk at a limited rate.
const BY_DEVICES: &[Panel] = &[
    Panel {
        name: "TPC-C, 1 device",
        arguments: &["tpcc", "{devices:1}", "--device-rate", "250", "--checkpoint-every", "4"],
        scale: 2,
    },
    Panel {
        name: "TPC-C, 2 devices",
        arguments: &["tpcc", "{devices:2}", "--device-rate", "250", "--checkpoint-every", "4"],
        scale: 2,
    },
];

const LOGS: &[Series] = &[
    Series::bench("off", &["--workers", "2", "--log", "off"]),
    Series::bench("PL", &["--workers", "2", "--log", "physical"]),
    Series::bench("LL", &["--workers", "2", "--log", "logical"]),
    Series::bench("CL", &["--workers", "2", "--log", "command"]),
];

const AD_HOC: Axis = Axis {
    name: "% ad-hoc",
    values: &[0, 20, 40, 60, 80, 100],
    bench: &["--workers", "2", "--ad-hoc", "{x}"],
    recover: &[],
};

const THREADS: Axis =
    Axis { name: "threads", values: &[1, 2, 4, 8], bench: &[], recover: &["--threads", "{x}"] };

/// Both cores of the machine.
const TWO_THREADS: Axis = Axis { name: "", values: &[2], bench: &[], recover: &["--threads", "{x}"] };

/// The log that is written, with those beside it, by two workers.
const ALL_LOGS: &[&str] = &["--workers", "2", "--shadow-log", "logical", "--shadow-log", "physical"];

const fn scheme(name: &'static str, recover: &'static [&'static str]) -> Series {
    Series { name, bench: ALL_LOGS, recover, at_most: u32::MAX }
}

const SCHEMES: &[Series] = &[
    scheme("PLR", &["bench", "recovery", "{data}/shadow-physical", "--method", "plr"]),
    scheme("LLR", &["bench", "recovery", "{data}/shadow-logical", "--method", "llr"]),
    scheme("LLR-P", &["bench", "recovery", "{data}/shadow-logical", "--method", "llr-p"]),
    scheme("CLR", &["bench", "recovery", "{data}", "--method", "clr"]),
    scheme("CLR-P", &["bench", "recovery", "{data}", "--method", "clr-p"]),
];

/// Without latches the state may be wrong, so it is not compared.
const LATCHES: &[Series] = &[
    scheme("PLR", &["bench", "recovery", "{data}/shadow-physical", "--method", "plr", "--latches", "on"]),
    scheme(
        "PLR, no latches",
        &["bench", "recovery", "{data}/shadow-physical", "--method", "plr", "--latches", "off"],
    ),
    scheme("LLR", &["bench", "recovery", "{data}/shadow-logical", "--method", "llr", "--latches", "on"]),
    scheme(
        "LLR, no latches",
        &["bench", "recovery", "{data}/shadow-logical", "--method", "llr", "--latches", "off"],
    ),
];

const CHOPPING: Series = mode("chopping", &["recover", "{data}", "--method", "clr-p", "--mode", "chopping"]);
const STATIC: Series = mode("static", &["recover", "{data}", "--method", "clr-p", "--mode", "static"]);
const SYNCHRONOUS: Series =
    mode("synchronous", &["recover", "{data}", "--method", "clr-p", "--mode", "synchronous"]);
const PIPELINED: Series =
    mode("pipelined", &["recover", "{data}", "--method", "clr-p", "--mode", "pipelined"]);

const fn mode(name: &'static str, recover: &'static [&'static str]) -> Series {
    Series { name, bench: &["--workers", "2"], recover, at_most: u32::MAX }
}

const fn published(
    panel: &'static str,
    series: &'static str,
    measure: &'static str,
    value: f64,
) -> Published {
    Published { panel, series, x: None, measure, value }
}

/// A log of TPC-C: transactions for each second of the duration of a point.
const TPCC_LOG: Kind = Kind::Recovery { transactions_per_second: 50_000 };

/// The experiments.
pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "pacman-table-1",
        figure: "PACMAN, Table 1",
        title: "Throughput and size of logs",
        panels: &[TPCC, SMALLBANK],
        series: LOGS,
        chart: Chart::Curves(&[THROUGHPUT, LOG_RATE, LOG_BYTES]),
        published: &[
            published("TPC-C", "off", "throughput", 95.0),
            published("TPC-C", "PL", "throughput", 71.0),
            published("TPC-C", "LL", "throughput", 74.0),
            published("TPC-C", "CL", "throughput", 93.0),
            published("Smallbank", "PL", "throughput", 503.0),
            published("Smallbank", "LL", "throughput", 564.0),
            published("Smallbank", "CL", "throughput", 595.0),
            published("TPC-C", "PL", "log", 13.7),
            published("TPC-C", "LL", "log", 12.9),
            published("TPC-C", "CL", "log", 1.2),
            published("Smallbank", "PL", "log", 1.6),
            published("Smallbank", "LL", "log", 1.2),
            published("Smallbank", "CL", "log", 1.3),
        ],
        remark: "The paper: 32 workers of 40 cores, 200 warehouses, no inserts.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-table-2",
        figure: "PACMAN, Tables 2 and 3",
        title: "Written log and latency by devices, beside checkpoints",
        panels: BY_DEVICES,
        series: LOGS,
        chart: Chart::Curves(&[LOG_WRITTEN, LATENCY]),
        published: &[
            published("TPC-C, 1 device", "PL", "written log", 352.0),
            published("TPC-C, 1 device", "LL", "written log", 347.0),
            published("TPC-C, 1 device", "CL", "written log", 250.0),
            published("TPC-C, 2 devices", "PL", "written log", 468.0),
            published("TPC-C, 2 devices", "LL", "written log", 460.0),
            published("TPC-C, 2 devices", "CL", "written log", 246.0),
            published("TPC-C, 1 device", "PL", "mean latency", 38.0),
            published("TPC-C, 1 device", "LL", "mean latency", 33.0),
            published("TPC-C, 1 device", "CL", "mean latency", 14.0),
            published("TPC-C, 2 devices", "PL", "mean latency", 25.0),
            published("TPC-C, 2 devices", "LL", "mean latency", 24.0),
            published("TPC-C, 2 devices", "CL", "mean latency", 11.0),
        ],
        times: 2,
        remark: "The paper counts the bytes of checkpoints, too, on two SSDs of 520 MB/s each. Here \
devices are folders of one disk, each limited to 250 MB/s.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-11",
        figure: "PACMAN, Figure 11",
        title: "Throughput and latency over time, beside checkpoints",
        panels: BY_DEVICES,
        series: LOGS,
        chart: Chart::Seconds(TIMELINE),
        times: 4,
        remark: "The paper: off runs at 95 thousand a second. With one SSD PL and LL lose about 25 % \
during checkpoints and 20 % between them, with latencies of up to 300 ms; CL loses less than 6 %. \
With two SSDs (11b) PL and LL lose 20 %, and their latency is at least twice that of CL.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-12",
        figure: "PACMAN, Figure 12",
        title: "Logging with ad-hoc transactions",
        panels: &[TPCC],
        series: &[Series::bench("CL", &["--log", "command"])],
        axis: AD_HOC,
        chart: Chart::Curves(&[THROUGHPUT, LATENCY, LOG_BYTES]),
        remark: "The paper: throughput drops almost linearly with ad-hoc transactions (12a), and \
latency grows, above all beside checkpoints (12b).",
        ..EMPTY
    },
    Experiment {
        name: "pacman-13",
        figure: "PACMAN, Figure 13",
        title: "Recovery of a checkpoint: its files alone, and with tables and indexes",
        kind: Kind::Recovery { transactions_per_second: 5_000 },
        panels: &[TPCC_WRITE],
        series: SCHEMES,
        axis: THREADS,
        chart: Chart::Curves(&[CHECKPOINT_FILES, CHECKPOINT]),
        remark: "The paper: files are reloaded at the bandwidth of the SSDs, about 1 GB/s, by every \
scheme (13a); PLR needs much less time in all, because it builds indexes during log recovery (13b). \
Here files come from the page cache.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-14",
        figure: "PACMAN, Figure 14",
        title: "Log recovery: loading the log, and with replay",
        kind: TPCC_LOG,
        panels: &[TPCC],
        series: SCHEMES,
        axis: THREADS,
        chart: Chart::Curves(&[LOG_LOADING, LOG_RECOVERY]),
        remark: "The paper: the command log loads fastest, as it is smallest. CLR takes 4,200 s; \
CLR-P with 40 threads is 18 times as fast. PLR and LLR get slower beyond 20 threads, for their \
latches.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-15",
        figure: "PACMAN, Figure 15",
        title: "What latches cost recovery",
        kind: TPCC_LOG,
        panels: &[TPCC],
        series: LATCHES,
        axis: THREADS,
        chart: Chart::Curves(&[REPLAY]),
        remark: "The paper: without latches the times of PLR and LLR fall to 750 and 270 s at 20 \
threads; with 40 threads and latches they are over 1,000 and 700 s. Without latches the recovered \
state may be wrong.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-16",
        figure: "PACMAN, Figure 16",
        title: "Recovery as a whole",
        kind: TPCC_LOG,
        panels: &[TPCC, SMALLBANK],
        series: SCHEMES,
        axis: TWO_THREADS,
        chart: Chart::Bars(STAGES),
        remark: "The paper, 40 threads: CLR is slowest on both workloads and LLR-P fastest, CLR-P is \
second, and checkpoints take next to no time.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-17",
        figure: "PACMAN, Figure 17",
        title: "Recovery with ad-hoc transactions",
        kind: TPCC_LOG,
        panels: &[TPCC],
        series: &[Series::recovery("CLR-P", &["recover", "{data}", "--method", "clr-p", "--threads", "2"])],
        axis: AD_HOC,
        chart: Chart::Curves(&[RECOVERY, REPLAYED]),
        remark: "The paper: recovery gets shorter with each ad-hoc transaction, and at 100 % takes \
as long as LLR-P.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-18",
        figure: "PACMAN, Figure 18",
        title: "Static analysis against transaction chopping",
        kind: TPCC_LOG,
        panels: &[TPCC_WRITE],
        series: &[CHOPPING, STATIC],
        axis: THREADS,
        chart: Chart::Curves(&[LOG_RECOVERY, REPLAYED]),
        remark: "The paper: from 1 to 3 threads static analysis falls from 4,500 to about 2,000 s \
and no further; chopping always takes longer.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-19",
        figure: "PACMAN, Figure 19",
        title: "Dynamic analysis: static, synchronous and pipelined execution",
        kind: TPCC_LOG,
        panels: &[TPCC_WRITE],
        series: &[STATIC, SYNCHRONOUS, PIPELINED],
        axis: THREADS,
        chart: Chart::Curves(&[LOG_RECOVERY, REPLAYED]),
        remark: "The paper, 40 threads: synchronous execution takes a quarter of the time of static \
analysis alone, and pipelined execution less than 300 s.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-20",
        figure: "PACMAN, Figure 20",
        title: "Where the time of log recovery goes",
        kind: TPCC_LOG,
        panels: &[TPCC_WRITE],
        series: &[PIPELINED],
        axis: THREADS,
        chart: Chart::Bars(BREAKDOWN),
        remark: "The paper: with 40 threads scheduling takes about 30 %; loading the log and the \
analysis of parameters take little.",
        ..EMPTY
    },
    Experiment {
        name: "pacman-21",
        figure: "PACMAN, Figure 21",
        title: "The global dependency graph of TPC-C",
        kind: Kind::Drawing(&["explain", "--workload", "tpcc"]),
        remark: "The paper draws a simplified graph. `sql/tests/suite/analysis.rs` compares the two.",
        ..EMPTY
    },
];
