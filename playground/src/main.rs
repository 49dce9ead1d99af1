//! The page: `cargo run -p playground` builds and serves it on this machine, and `cargo run -p
//! playground -- build FOLDER` writes it, as one file that needs no server and no network.

use std::{
    env, error::Error, fs, net::Ipv4Addr, num::ParseIntError, path::Path, process::ExitCode,
};

use axum::{Router, response::Html, routing::get};
use tokio::net::TcpListener;

mod site;

const USAGE: &str = "usage: playground [--port PORT] | playground build FOLDER";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        [] => serve(8080).await,
        ["--port", port] => {
            let wrong = |error: ParseIntError| format!("--port {port}: {error}");
            serve(port.parse().map_err(wrong)?).await
        }
        ["build", folder] => {
            let file = Path::new(folder).join("index.html");
            fs::create_dir_all(folder)?;
            fs::write(&file, site::page()?)?;
            println!("{}", file.display());
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Serves the page to this machine alone.
async fn serve(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener =
        listener.map_err(|error| format!("port {port}: {error}; --port names another"))?;
    let page = Html(site::page()?);
    println!("http://{}", listener.local_addr()?);
    let app = Router::new().route("/", get(async || page));
    Ok(axum::serve(listener, app).await?)
}
