//! Figures of DistDGCC that need one node. Figures 11, 12 and 15 need a cluster; Figure 18 is of one, and
//! shows here what one node does.

use crate::experiment::{Axis, Chart, EMPTY, Experiment, Kind, Panel, Series};
use crate::measures::{LATENCY, STAGES, THROUGHPUT, TIMELINE, UNDONE};

const YCSB_LOW: Panel = Panel {
    name: "YCSB, Zipf 0.6",
    arguments: &["ycsb", "--mix", "a", "--operations", "10", "--skew", "0.6"],
    scale: 1,
};
const YCSB_HIGH: Panel = Panel {
    name: "YCSB, Zipf 0.8",
    arguments: &["ycsb", "--mix", "a", "--operations", "10", "--skew", "0.8"],
    scale: 1,
};
const TPCC: Panel = Panel { name: "TPC-C, 1 warehouse", arguments: &["tpcc"], scale: 1 };

/// The three protocols, without a log.
const PROTOCOLS: &[Series] = &[
    Series::bench("2PL", &["--log", "off", "--concurrency", "2pl"]),
    Series::bench("OCC", &["--log", "off", "--concurrency", "occ"]),
    Series::bench("DGCC", &["--log", "off", "--concurrency", "dgcc"]),
];

/// Client threads; under dgcc, also the threads that run batches.
const WORKERS: Axis = Axis {
    name: "workers",
    values: &[1, 2, 3, 4],
    bench: &["--workers", "{x}", "--executors", "{x}"],
    recover: &[],
};

const BATCHES: Axis = Axis {
    name: "calls a batch",
    values: &[16, 64, 256, 1024, 4096, 16_384],
    bench: &["--workers", "2", "--batch-size", "{x}"],
    recover: &[],
};

const THREADS: Axis =
    Axis { name: "threads", values: &[1, 2, 4], bench: &[], recover: &["--threads", "{x}"] };

/// A log's content with the recovery that replays it.
const fn log(name: &'static str, bench: &'static [&'static str]) -> Series {
    Series { bench, ..Series::recovery(name, &["recover", "{data}"]) }
}

/// The logs that Figures 14, 16 and 17 compare, each under DGCC.
const LOGS: &[Series] = &[
    log("ARIES", &["--concurrency", "dgcc", "--log", "physiological"]),
    log("command", &["--concurrency", "dgcc", "--log", "command"]),
    log("logical", &["--concurrency", "dgcc", "--log", "logical"]),
    log("dependency, fine", &["--concurrency", "dgcc", "--log", "dependency-fine"]),
    log("dependency, coarse", &["--concurrency", "dgcc", "--log", "dependency-coarse"]),
];

const NO_LOG: Series = log("no log", &["--concurrency", "dgcc", "--log", "off"]);

/// No log, and [`LOGS`].
const LOGS_AND_NONE: &[Series] = &{
    let mut all = [NO_LOG; LOGS.len() + 1];
    let mut index = 0;
    while index < LOGS.len() {
        all[index + 1] = LOGS[index];
        index += 1;
    }
    all
};

const COMMANDS: &[&str] = &["--log", "command"];
const ROWS: &[&str] = &["--log", "logical"];

/// On demand and closed, for two logs.
const OPENINGS: &[Series] = &[
    Series { bench: COMMANDS, ..Series::recovery("command, on demand", &OPEN_COMMANDS_ON_DEMAND) },
    Series { bench: COMMANDS, ..Series::recovery("command, closed", &OPEN_COMMANDS) },
    Series { bench: ROWS, ..Series::recovery("logical, on demand", &OPEN_ROWS_ON_DEMAND) },
    Series { bench: ROWS, ..Series::recovery("logical, closed", &OPEN_ROWS) },
];
const OPEN_COMMANDS_ON_DEMAND: [&str; 11] = open("command", "on");
const OPEN_COMMANDS: [&str; 11] = open("command", "off");
const OPEN_ROWS_ON_DEMAND: [&str; 11] = open("logical", "on");
const OPEN_ROWS: [&str; 11] = open("logical", "off");

/// The command that opens a copy of the folder and works.
const fn open(content: &'static str, on_demand: &'static str) -> [&'static str; 11] {
    [
        "bench",
        "opening",
        "{data}",
        "--workload",
        "tpcc",
        "--scale",
        "{scale}",
        "--log",
        content,
        "--on-demand",
        on_demand,
    ]
}

const PROTOCOLS_FIND: &str = "The paper: DistDGCC is fastest in all three workloads on a node of 4 \
cores; 2PL scales at low contention and drops at high contention; OCC is slowest. Its latency \
follows from the batch size, where that of 2PL and OCC grows with contention. Here a transaction \
calls one procedure; under DGCC a client has as many calls under way as a batch holds.";

const RECOVERIES_FIND: &str = "The paper: one thread recovers about as fast from each log, ARIES a \
little faster; with 8 threads fine-grained dependency logs recover nearly 5 times as fast as ARIES, \
and on TPC-C twice as fast as coarse-grained ones. Here ARIES replays on all threads, and each log \
is written under DGCC.";

/// The experiments.
pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "distdgcc-9",
        figure: "DistDGCC, Figure 9",
        title: "Throughput of three concurrency controls",
        panels: &[YCSB_LOW, YCSB_HIGH, TPCC],
        series: PROTOCOLS,
        axis: WORKERS,
        chart: Chart::Curves(&[THROUGHPUT, UNDONE]),
        remark: PROTOCOLS_FIND,
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-10",
        figure: "DistDGCC, Figure 10",
        title: "Latency of three concurrency controls",
        panels: &[YCSB_LOW, YCSB_HIGH, TPCC],
        series: PROTOCOLS,
        axis: WORKERS,
        chart: Chart::Curves(&[LATENCY]),
        remark: PROTOCOLS_FIND,
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-13",
        figure: "DistDGCC, Figure 13",
        title: "Throughput and latency by the size of batches",
        panels: &[YCSB_HIGH, TPCC],
        series: &[Series::bench("DGCC", &["--log", "off", "--concurrency", "dgcc"])],
        axis: BATCHES,
        chart: Chart::Curves(&[THROUGHPUT, LATENCY]),
        remark: "The paper, on 8 nodes: throughput grows with the batch until the cores are busy; \
latency grows almost linearly. Here one node.",
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-14",
        figure: "DistDGCC, Figure 14",
        title: "What logs cost",
        panels: &[YCSB_HIGH, TPCC],
        series: LOGS_AND_NONE,
        axis: WORKERS,
        chart: Chart::Curves(&[THROUGHPUT, LATENCY]),
        remark: "The paper: with more workers ARIES falls behind, because it writes more; both \
dependency logs are about as fast as no log, and their latency lies between no log and ARIES.",
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-16",
        figure: "DistDGCC, Figure 16",
        title: "Recovery of YCSB",
        kind: Kind::Recovery { transactions_per_second: 30_000 },
        panels: &[YCSB_HIGH],
        series: LOGS,
        axis: THREADS,
        chart: Chart::Bars(STAGES),
        remark: RECOVERIES_FIND,
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-17",
        figure: "DistDGCC, Figure 17",
        title: "Recovery of TPC-C",
        kind: Kind::Recovery { transactions_per_second: 30_000 },
        panels: &[TPCC],
        series: LOGS,
        axis: THREADS,
        chart: Chart::Bars(STAGES),
        remark: RECOVERIES_FIND,
        ..EMPTY
    },
    Experiment {
        name: "distdgcc-18",
        figure: "DistDGCC, Figure 18",
        title: "Throughput and latency while a database recovers",
        kind: Kind::Recovery { transactions_per_second: 60_000 },
        panels: &[Panel { name: "TPC-C, 2 warehouses", arguments: &["tpcc"], scale: 2 }],
        series: OPENINGS,
        chart: Chart::Seconds(TIMELINE),
        remark: "The paper kills one of 8 nodes: with ARIES logs, transactions that need its data abort \
until it is recovered; with dependency logs throughput grows while the node recovers. Here the seconds \
count from the begin of the opening of one node; with a closed recovery it serves nothing before that ends.",
        ..EMPTY
    },
];
