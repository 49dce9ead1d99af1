//! A limit from a file, which is reloaded when the file changes, and on SIGHUP.
//!
//! Nobody's count is lost. If the file has a mistake, the error names its line, and the old limit
//! stays; so it does if the file cannot be read.
//!
//! ```text
//! cargo run -p reload              # serves by examples/reload/limits.toml on port 3000
//! cargo run -p reload -- --once    # does all of it to itself
//! ```

use std::{env, error::Error, fs, path::Path, path::PathBuf, process, time::Duration};

use axum::{Router, body::Body, extract::Request, routing::get};
use tokio::signal::unix::{SignalKind, signal};
use tokio::{net::TcpListener, sync::mpsc};
use tollgate::{RateLimitLayer, algorithm::TokenBucket, choice::Reloadable, key, store};
use tower::ServiceExt;

const IN_FORCE: &str = "the limit of the file is in force";

#[derive(serde::Deserialize)]
struct Limits {
    api: TokenBucket,
}

fn parse(text: &str) -> Result<TokenBucket, Box<dyn Error>> {
    Ok(toml::from_str::<Limits>(text)?.api)
}

/// Reloads the file when it changes and on SIGHUP, and reports the result.
async fn follow(file: PathBuf, api: Reloadable<TokenBucket>, told: mpsc::Sender<String>) {
    let mut hang_up = signal(SignalKind::hangup()).expect("signals can be had");
    let mut seen = Ok(String::new());
    loop {
        // Compare the text: two changes may have the same modification time.
        let text = fs::read_to_string(&file).map_err(|error| error.to_string());
        if text == seen {
            tokio::select! {
                _ = hang_up.recv() => {}
                () = tokio::time::sleep(Duration::from_millis(100)) => continue,
            }
        }
        let replaced = match &text {
            Ok(text) => parse(text).and_then(|limit| Ok(api.replace(limit)?)),
            Err(error) => Err(format!("{}: {error}", file.display()).into()),
        };
        let said = match replaced {
            Ok(()) => IN_FORCE.to_owned(),
            Err(error) => format!("the old limit stays: {error}"),
        };
        seen = text;
        println!("{said}");
        let _ = told.try_send(said);
    }
}

/// Writes a new file and renames it, so that half a file is never read.
fn write(file: &Path, burst: &str) -> Result<(), Box<dyn Error>> {
    let new = file.with_extension("new");
    let limit = format!("api = {{ quota = '2/h', burst = {burst}, name = 'api' }}");
    fs::write(&new, limit)?;
    Ok(fs::rename(new, file)?)
}

async fn admitted_of_ten(app: &Router) -> Result<u32, Box<dyn Error>> {
    let mut admitted = 0;
    for _ in 0..10 {
        let response = app.clone().oneshot(Request::new(Body::empty())).await?;
        admitted += u32::from(response.status() == 200);
    }
    Ok(admitted)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/limits.toml"));
    let once = env::args().any(|argument| argument == "--once");
    if once {
        file = env::temp_dir().join(format!("tollgate-limits-{}.toml", process::id()));
        write(&file, "2")?;
    }
    let api = Reloadable::new(parse(&fs::read_to_string(&file)?)?);
    let limit = RateLimitLayer::new(api.clone(), store::LocalStore::new(), key::Global);
    let app = Router::new().route("/", get("hello")).layer(limit);
    let (told, mut said) = mpsc::channel(100);
    tokio::spawn(follow(file.clone(), api, told));
    if !once {
        return Ok(axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app).await?);
    }
    for (burst, says, more) in [
        (Some("2"), IN_FORCE, 2),
        // Two of the five were used already.
        (Some("5"), IN_FORCE, 3),
        (Some("'many'"), "line 1", 0),
        (Some("6"), IN_FORCE, 1),
        // There is no file.
        (None, ".toml: No such file", 0),
        (Some("7"), IN_FORCE, 1),
    ] {
        match burst {
            Some(burst) => write(&file, burst)?,
            None => fs::remove_file(&file)?,
        }
        assert!(said.recv().await.unwrap_or_default().contains(says));
        assert_eq!(admitted_of_ten(&app).await?, more);
    }
    let mut kill = process::Command::new("kill");
    kill.arg("-HUP").arg(process::id().to_string()).status()?;
    assert_eq!(said.recv().await.as_deref(), Some(IN_FORCE));
    Ok(fs::remove_file(file)?)
}
