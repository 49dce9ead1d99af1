//! What the server counts.

use fred::types::FromValue;
use tollgate_redis_tests::Server;

/// Commands that run scripts: the time of what the scripts call is in theirs.
const SCRIPTS: [&str; 3] = ["eval", "evalsha", "fcall"];

/// What some decisions cost the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// The time of commands, as `INFO commandstats` has it.
    pub(crate) micros: f64,
    /// The time of the whole process: commands, the network and what else it does.
    pub(crate) cpu_micros: f64,
    /// Commands, those of scripts included.
    pub(crate) commands: f64,
    /// Whether there were scripts, whose time is all that `micros` is.
    of_scripts: bool,
    /// How often the server read from a connection: round trips, where one decision follows the
    /// other.
    pub(crate) reads: f64,
}

impl Cost {
    /// Without what the measurement itself costs. The time of scripts has nothing of it.
    pub(crate) fn without(self, measurement: Self) -> Self {
        let scripts = self.of_scripts;
        Self {
            micros: if scripts {
                self.micros
            } else {
                self.micros - measurement.micros
            },
            cpu_micros: self.cpu_micros - measurement.cpu_micros,
            commands: self.commands - measurement.commands,
            reads: self.reads - measurement.reads,
            of_scripts: scripts,
        }
    }

    /// Of one of so many.
    pub(crate) fn of_one(self, count: f64) -> Self {
        Self {
            micros: self.micros / count,
            cpu_micros: self.cpu_micros / count,
            commands: self.commands / count,
            reads: self.reads / count,
            ..self
        }
    }
}

/// Begins anew, and tells the time of the process so far.
pub(crate) async fn reset(server: &Server) -> f64 {
    let () = server.command("CONFIG", &["RESETSTAT"]).await;
    cpu_micros(server).await
}

async fn cpu_micros(server: &Server) -> f64 {
    let mut seconds = 0.0;
    for field in ["used_cpu_sys", "used_cpu_user"] {
        let text = server.info_field("cpu", field).await;
        seconds += text.map_or(0.0, |text| text.parse::<f64>().expect("a number"));
    }
    seconds * 1e6
}

/// What was counted since, where the time of the process was this.
pub(crate) async fn cost(server: &Server, cpu_micros_before: f64) -> Cost {
    let cpu_micros = cpu_micros(server).await - cpu_micros_before;
    let (mut of_scripts, mut of_others, mut commands) = (0.0, 0.0, 0.0);
    for (name, counted) in server.commands().await {
        commands += counted.calls as f64;
        if SCRIPTS.contains(&name.as_str()) {
            of_scripts += counted.micros as f64;
        } else {
            of_others += counted.micros as f64;
        }
    }
    let reads = server.info_field("stats", "total_reads_processed").await;
    let reads = reads.map_or(0.0, |reads| reads.parse::<f64>().expect("a number"));
    Cost {
        micros: if of_scripts > 0.0 {
            of_scripts
        } else {
            of_others
        },
        cpu_micros,
        commands,
        of_scripts: of_scripts > 0.0,
        reads,
    }
}

/// Bytes of all keys.
pub(crate) async fn bytes(server: &Server) -> f64 {
    let mut bytes = 0;
    for key in server.keys("").await {
        let key = String::from_utf8_lossy(&key).into_owned();
        let usage: Option<u64> = integer(server, &["USAGE", &key, "SAMPLES", "0"]).await;
        bytes += usage.unwrap_or(0);
    }
    bytes as f64
}

async fn integer<R: FromValue>(server: &Server, arguments: &[&str]) -> R {
    server.command("MEMORY", arguments).await
}
