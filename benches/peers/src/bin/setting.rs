//! The machine, and the versions of what is compared.

use std::{fs, process::Command};

use tollgate_peers::{table, versions::version_of};

/// Each package, and what of it is compared.
const PACKAGES: [(&str, &str); 15] = [
    ("governor", "`check_key`, `check_key_n`, `check`"),
    ("tower_governor", "`GovernorLayer`, also with `use_headers`"),
    ("axum-governor", "`GovernorLayer`, `stack`"),
    (
        "axum_gcra",
        "`gcra::RateLimiter::req_sync`, `RateLimitLayer<RealIp>` (for axum 0.7)",
    ),
    (
        "tower-resilience-ratelimiter",
        "`RateLimiterLayer`, which has one bucket for all",
    ),
    (
        "tower",
        "`limit::RateLimitLayer`, which has one bucket for all, and delays instead of refusing",
    ),
    (
        "throttle-kit",
        "`check` over `InMemoryBackend` and `SlidingWindowBackend`, `RateLimitLayer`",
    ),
    (
        "throttlecrab",
        "`RateLimiter<PeriodicStore>`, behind a lock as it needs `&mut`",
    ),
    (
        "skp-ratelimit",
        "`check_and_record` over `MemoryStorage`, `RateLimitLayer`",
    ),
    ("trypema", "the local provider, `absolute().inc`"),
    (
        "limitador",
        "`check_rate_limited_and_update`, in memory; built without its stores on disk and in Redis",
    ),
    ("ratelimit", "`try_wait`, `try_wait_n`: one bucket, no keys"),
    ("leaky-bucket", "`try_acquire`: one bucket, no keys"),
    ("tower-rate-limit-fred", "`rate_limit`, in Redis"),
    ("axum", "what the layers stand before"),
];

fn main() {
    table::section("The machine", "Nothing else should have run on it.");
    table::head(&["", ""]);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    table::row(&[&"cores", &cores]);
    table::row(&[&"processor", &processor()]);
    table::row(&[&"kernel", &said_by("uname", &["-sr"])]);
    table::row(&[&"compiler", &said_by("rustc", &["--version"])]);

    let text = "Each at the version that `benches/peers/Cargo.lock` names, used as its README says. In \
        Redis also throttle-kit, skp-ratelimit, trypema, and the newest `limits` of Python and `rate-limiter-flexible` of \
        npm. Where a package has another store or framework than is named here, that is left out. So is actix-governor: \
        it is governor for actix-web, another framework, and its licence, the GPL, would be that of these programs too.";
    table::section("What is compared", text);
    table::head(&["package", "version", "used"]);
    for (package, used) in PACKAGES {
        table::row(&[&package, &version_of(package), &used]);
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split_once(": "));
    name.map_or("?", |(_, name)| name).to_owned()
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("?".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
