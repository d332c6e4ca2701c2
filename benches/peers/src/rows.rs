//! Who is compared: each with its defaults, and as an informed user would set it.

/// A program that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// `go/`: net/http and grpc-go.
    Go,
    /// [`serve`](crate::serve): axum on hyper.
    Rust,
}

/// What stands between load and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nothing.
    Direct,
    /// Envoy with adaptive concurrency.
    Envoy,
    /// Seawall's proxy.
    Seawall,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name in tables and results.
    pub name: &'static str,
    /// What serves.
    pub stack: Stack,
    /// The limiter within the server, as that calls it.
    pub peer: &'static str,
    /// Whether limiter or proxy are set for the workload.
    pub tuned: bool,
    /// What stands before the server.
    pub front: Front,
    /// Whether it is Seawall's.
    pub is_ours: bool,
    /// Whether it takes part in a quick run.
    pub is_quick: bool,
    /// Whether its cost without overload is measured.
    pub has_overhead: bool,
    /// How it is set, for readers.
    pub setting: &'static str,
}

impl Stack {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Rust => "rust",
        }
    }

    /// Its name for readers.
    pub fn language(self) -> &'static str {
        match self {
            Self::Go => "Go",
            Self::Rust => "Rust",
        }
    }
}

const fn go(name: &'static str, peer: &'static str, setting: &'static str) -> Row {
    Row {
        name,
        stack: Stack::Go,
        peer,
        tuned: false,
        front: Front::Direct,
        is_ours: false,
        is_quick: true,
        has_overhead: false,
        setting,
    }
}

const fn rust(name: &'static str, peer: &'static str, setting: &'static str) -> Row {
    Row { stack: Stack::Rust, ..go(name, peer, setting) }
}

const fn tuned(row: Row) -> Row {
    Row { tuned: true, is_quick: false, ..row }
}

const fn also_idle(row: Row) -> Row {
    Row { has_overhead: true, ..row }
}

const fn behind_envoy(row: Row) -> Row {
    Row { front: Front::Envoy, has_overhead: true, ..row }
}

const fn ours(row: Row) -> Row {
    Row { is_ours: true, has_overhead: true, ..row }
}

/// Said of each limiter that is tuned: there is one for each path, and it lets at most 40 requests
/// in, which is four fifths of what can be served within the SLO.
const AT_MOST_40: &str = "at most 40, one for each path";

/// All rows, in the order of tables.
pub const ROWS: &[Row] = &[
    also_idle(go("none (Go)", "none", "net/http, grpc-go")),
    go("failsafe-go", "failsafe", "adaptive limiter, defaults"),
    tuned(go("failsafe-go, tuned", "failsafe", AT_MOST_40)),
    go("go-zero", "gozero", "shedder, defaults: above 900 per mille of the machine's CPU"),
    tuned(go("go-zero, tuned", "gozero", "above 400 per mille (one busy core of two is 500)")),
    go("aegis", "aegis", "BBR, defaults: above 800 per mille of the machine's CPU"),
    tuned(go("aegis, tuned", "aegis", "above 400 per mille (one busy core of two is 500)")),
    behind_envoy(go("Envoy", "none", "adaptive concurrency as in its documentation's example")),
    Row {
        is_quick: true,
        has_overhead: false,
        ..tuned(behind_envoy(go(
            "Envoy, tuned",
            "none",
            "median, minRTT fixed at 3 ms, buffer 100 %, one filter for each path",
        )))
    },
    also_idle(rust("none (Rust)", "none", "axum on hyper")),
    rust("tower", "tower", "concurrency limit of 100, load shed (tower names no default)"),
    tuned(rust("tower, tuned", "tower", AT_MOST_40)),
    rust("little-loadshedder", "little", "1 %, 2 s, as in its documentation"),
    tuned(rust("little-loadshedder, tuned", "little", "target 50 ms, one for each path")),
    rust("congestion-limiter", "congestion", "AIMD from 10 to 20, as in its documentation"),
    tuned(rust("congestion-limiter, tuned", "congestion", "Vegas, at most 40, one for each path")),
    rust("tower-resilience", "resilience", "AIMD, defaults"),
    tuned(rust("tower-resilience, tuned", "resilience", "Vegas, at most 40, one for each path")),
    ours(rust("Seawall layer", "seawall", "defaults; the lock is Seawall's")),
    Row {
        is_quick: true,
        ..ours(tuned(rust("Seawall layer, tuned", "seawall", "target delay of ten service times")))
    },
    ours(rust("Seawall layer, plain lock", "seawall-plain", "defaults; the lock is tokio's")),
    ours(Row {
        front: Front::Seawall,
        ..go("Seawall proxy", "none", "enforce, SLO 100 ms, defaults; before the server in Go")
    }),
];

/// The row with this name.
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_own_name() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
            assert_eq!(row.name.ends_with(", tuned"), row.tuned, "{}", row.name);
        }
    }
}
