//! Figures and tables of Poplar. Devices are folders of one disk, each at a limited rate.

use crate::experiment::{Axis, Chart, EMPTY, Experiment, Kind, Panel, Published, Series};
use crate::measures::{
    CHECKPOINT, DEVICE_WRITTEN, LATENCY, LOG_RECOVERY, MEDIAN_LATENCY, RECOVERY, THROUGHPUT,
};

const YCSB: Panel = Panel { name: "YCSB", arguments: &["ycsb", "--mix", "write"], scale: 1 };
const TPCC: Panel = Panel { name: "TPC-C", arguments: &["tpcc", "--mix", "poplar"], scale: 2 };

const CENTR: &[&str] = &["--log", "logical", "--sequencing", "serial", "{devices:1}", "--device-rate", "40"];
const NVM_D: &[&str] = &["--log", "logical", "--sequencing", "gsn", "{devices:2}", "--device-rate", "40"];
const SILO: &[&str] = &[
    "--log",
    "logical",
    "--sequencing",
    "epoch",
    "--flush-floor-us",
    "50000",
    "{devices:2}",
    "--device-rate",
    "40",
];
const POPLAR: &[&str] = &["--log", "logical", "--sequencing", "ssn", "{devices:2}", "--device-rate", "40"];

/// One device for CENTR, two for the remaining ones.
const SEQUENCINGS: &[Series] = &[
    Series::bench("CENTR", CENTR),
    Series::bench("NVM-D", NVM_D),
    Series::bench("SILO", SILO),
    Series::bench("POPLAR", POPLAR),
];

/// As many devices as the axis says.
const BY_DEVICES: &[Series] = &[
    Series {
        at_most: 1,
        ..Series::bench("CENTR", &["--workers", "4", "--log", "logical", "--sequencing", "serial"])
    },
    Series::bench("NVM-D", &["--workers", "4", "--log", "logical", "--sequencing", "gsn"]),
    Series::bench(
        "SILO",
        &["--workers", "4", "--log", "logical", "--sequencing", "epoch", "--flush-floor-us", "50000"],
    ),
    Series::bench("POPLAR", &["--workers", "4", "--log", "logical", "--sequencing", "ssn"]),
];

/// Emulated non-volatile memory.
const ON_MEMORY: &[Series] = &[
    Series::bench("off", &["--workers", "2", "--log", "off"]),
    Series::bench(
        "CENTR",
        &["--workers", "2", "--log", "logical", "--sequencing", "serial", "--log-io", "memory:300"],
    ),
    Series::bench(
        "NVM-D",
        &[
            "--workers",
            "2",
            "--log",
            "logical",
            "--sequencing",
            "gsn",
            "--log-io",
            "memory:300",
            "{devices:2}",
        ],
    ),
    Series::bench(
        "SILO",
        &[
            "--workers",
            "2",
            "--log",
            "logical",
            "--sequencing",
            "epoch",
            "--flush-floor-us",
            "50000",
            "--log-io",
            "memory:300",
            "{devices:2}",
        ],
    ),
    Series::bench(
        "POPLAR",
        &[
            "--workers",
            "2",
            "--log",
            "logical",
            "--sequencing",
            "ssn",
            "--log-io",
            "memory:300",
            "{devices:2}",
        ],
    ),
];

const WORKERS: Axis =
    Axis { name: "workers", values: &[1, 2, 4], bench: &["--workers", "{x}"], recover: &[] };

const AT_A_RATE: Axis = Axis {
    name: "workers",
    values: &[1, 2, 4],
    bench: &["--workers", "{x}", "--rate", "3000"],
    recover: &[],
};

const DEVICES: Axis = Axis {
    name: "devices",
    values: &[1, 2, 4],
    bench: &["{devices:x}", "--device-rate", "40"],
    recover: &[],
};

const SCANS: Axis =
    Axis { name: "rows a scan", values: &[0, 10, 100], bench: &["--mix", "hybrid:{x}"], recover: &[] };

const DEVICES_OF_A_LOG: Axis = Axis {
    name: "devices",
    values: &[1, 2, 4],
    bench: &["--workers", "2", "--log", "logical", "--log-file-mib", "32", "{devices:x}"],
    recover: &[],
};

const READ_AT_A_RATE: &[&str] = &["bench", "recovery", "{data}", "--device-rate", "100"];

const RECOVERIES: &[Series] = &[
    Series { name: "CENTR", bench: &["--sequencing", "serial"], recover: READ_AT_A_RATE, at_most: 1 },
    Series {
        name: "SILO",
        bench: &["--sequencing", "epoch", "--flush-floor-us", "50000"],
        recover: READ_AT_A_RATE,
        at_most: u32::MAX,
    },
    Series { name: "POPLAR", bench: &["--sequencing", "ssn"], recover: READ_AT_A_RATE, at_most: u32::MAX },
];

const fn published(
    panel: &'static str,
    series: &'static str,
    devices: u32,
    measure: &'static str,
    value: f64,
) -> Published {
    Published { panel, series, x: Some(devices), measure, value }
}

/// The experiments.
pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "poplar-5",
        figure: "Poplar, Figure 5",
        title: "Throughput of sequencings by workers",
        panels: &[YCSB, TPCC],
        series: SEQUENCINGS,
        axis: WORKERS,
        chart: Chart::Curves(&[THROUGHPUT]),
        remark: "The paper, two SSDs, up to 20 workers: POPLAR and SILO reach twice CENTR's \
throughput, and 280 (YCSB) and 131 (TPC-C) times NVM-D's.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-6",
        figure: "Poplar, Figure 6",
        title: "Bandwidth of a device by workers",
        panels: &[YCSB, TPCC],
        series: SEQUENCINGS,
        axis: WORKERS,
        chart: Chart::Curves(&[DEVICE_WRITTEN]),
        remark: "The paper: all but NVM-D reach the bandwidth of the SSDs, 1.2 GB/s. Here a device \
has 40 MB/s.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-7",
        figure: "Poplar, Figure 7",
        title: "Commit latency of sequencings by workers",
        panels: &[YCSB, TPCC],
        series: SEQUENCINGS,
        axis: AT_A_RATE,
        chart: Chart::Curves(&[LATENCY, MEDIAN_LATENCY]),
        remark: "The paper: SILO's latency is about 6 times that of the remaining ones; POPLAR and \
CENTR begin at 5 ms, their interval of group commit. Here clients offer 3,000 transactions a second, \
and POPLAR and CENTR have no such interval.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-8",
        figure: "Poplar, Figure 8",
        title: "What logging costs, on emulated non-volatile memory",
        panels: &[YCSB, TPCC],
        series: ON_MEMORY,
        chart: Chart::Curves(&[THROUGHPUT]),
        remark: "The paper divides the time of 20 workers into taking numbers, log work and the \
rest; taking numbers costs least everywhere. A benchmark shows the sum of the first two alone: the \
ratio to `off`. `docs/results.md` has the three parts by `perf`.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-9",
        figure: "Poplar, Figure 9",
        title: "Throughput of sequencings by devices",
        panels: &[YCSB, TPCC],
        series: BY_DEVICES,
        axis: DEVICES,
        chart: Chart::Curves(&[THROUGHPUT]),
        remark: "The paper: POPLAR and SILO scale with SSDs up to 4 on TPC-C and up to 2 on YCSB; \
CENTR has one.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-10",
        figure: "Poplar, Figure 10",
        title: "Sequencings by the length of scans, on emulated non-volatile memory",
        panels: &[Panel { name: "YCSB hybrid", arguments: &["ycsb"], scale: 1 }],
        series: ON_MEMORY,
        axis: SCANS,
        chart: Chart::Curves(&[THROUGHPUT, MEDIAN_LATENCY]),
        remark: "The paper: without a scan all have the same throughput; SILO's latency is 25.7 ms, \
that of the remaining ones 0.23 ms. With longer scans NVM-D falls behind, as it orders readers, too.",
        ..EMPTY
    },
    Experiment {
        name: "poplar-11",
        figure: "Poplar, Figure 11, Tables 2 and 3",
        title: "Recovery by devices",
        kind: Kind::Recovery { transactions_per_second: 40_000 },
        panels: &[YCSB, TPCC],
        series: RECOVERIES,
        axis: DEVICES_OF_A_LOG,
        chart: Chart::Curves(&[CHECKPOINT, LOG_RECOVERY, RECOVERY]),
        published: &[
            published("YCSB", "CENTR", 1, "checkpoint", 10.91),
            published("YCSB", "SILO", 2, "checkpoint", 5.34),
            published("YCSB", "POPLAR", 2, "checkpoint", 5.35),
            published("YCSB", "CENTR", 1, "log recovery", 93.25),
            published("YCSB", "SILO", 2, "log recovery", 45.73),
            published("YCSB", "POPLAR", 2, "log recovery", 45.75),
            published("YCSB", "CENTR", 1, "recovery", 104.16),
            published("YCSB", "SILO", 2, "recovery", 51.07),
            published("YCSB", "POPLAR", 2, "recovery", 51.10),
            published("TPC-C", "CENTR", 1, "checkpoint", 50.19),
            published("TPC-C", "SILO", 2, "checkpoint", 24.25),
            published("TPC-C", "POPLAR", 2, "checkpoint", 24.29),
            published("TPC-C", "CENTR", 1, "log recovery", 146.81),
            published("TPC-C", "SILO", 2, "log recovery", 70.93),
            published("TPC-C", "POPLAR", 2, "log recovery", 71.34),
            published("TPC-C", "CENTR", 1, "recovery", 197.00),
            published("TPC-C", "SILO", 2, "recovery", 95.18),
            published("TPC-C", "POPLAR", 2, "recovery", 95.63),
        ],
        remark: "The paper's numbers are those of two SSDs (one for CENTR) and 20 threads: 9 GB of \
checkpoints and 77 GB of log on YCSB, 40 and 117 GB on TPC-C. Here a device reads 100 MB/s.",
        ..EMPTY
    },
];
