//! A service with a file of eight rules, which is reloaded whenever it changes.
//!
//! Nobody's count is lost. If the file has a mistake, the error names the rule and the line, and
//! the old rules stay. So they do if the file is empty, or cannot be read.
//!
//! ```text
//! cargo run -p rules              # serves by examples/rules/rules.toml on port 3000
//! cargo run -p rules -- --once    # does all of it to itself
//! ```

use std::{
    env,
    error::Error,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use axum::{Router, extract::Request, middleware, middleware::Next, response::Response, routing};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::sleep,
};
use tollgate::{RateLimitLayer, rules::Rules, store::LocalStore};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rules.toml");
const IN_FORCE: &str = "the rules of the file are in force";

/// Who calls, and what for.
#[derive(Clone)]
struct Account {
    id: u32,
    plan: &'static str,
}

/// Puts the account into the request. A real service would verify a credential here.
async fn sign_in(mut request: Request, next: Next) -> Response {
    let user = request.headers().get("x-user");
    let account = match user.map(|user| user.as_bytes()) {
        Some(b"ann") => Some(Account {
            id: 1,
            plan: "free",
        }),
        Some(b"gus") => Some(Account {
            id: 2,
            plan: "gold",
        }),
        _ => None,
    };
    if let Some(account) = account {
        request.extensions_mut().insert(account);
    }
    next.run(request).await
}

fn app(rules: &Rules) -> Router {
    let hello = || routing::any(async || "hello");
    Router::new()
        .route("/", hello())
        .route("/health", hello())
        .route("/login", hello())
        .route("/search", hello())
        .route("/export/{id}", hello())
        .route("/files/{name}", hello())
        .route("/api/{*path}", hello())
        .route("/admin/{*path}", hello())
        .layer(RateLimitLayer::new(
            rules.clone(),
            LocalStore::new(),
            rules.clone(),
        ))
        .layer(middleware::from_fn(sign_in))
}

fn read(rules: &Rules, text: &str) -> Result<(), toml::de::Error> {
    rules.replace(toml::Deserializer::parse(text)?)
}

/// The text of the file, or why it cannot be read.
fn text_of(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Reloads the file whenever it changes, and reports the result.
async fn follow(file: PathBuf, rules: Rules, told: mpsc::Sender<String>) {
    let mut seen = text_of(&file);
    loop {
        sleep(Duration::from_millis(50)).await;
        let text = text_of(&file);
        if text == seen {
            continue;
        }
        let is_read = match &text {
            Ok(text) => read(&rules, text).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        let said = match is_read {
            Ok(()) => IN_FORCE.to_owned(),
            Err(error) => format!("the old rules stay: {error}"),
        };
        seen = text;
        println!("{said}");
        let _ = told.try_send(said);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let once = env::args().any(|argument| argument == "--once");
    let (mut file, mut address) = (PathBuf::from(FILE), "127.0.0.1:3000");
    if once {
        file = env::temp_dir().join(format!("tollgate-rules-{}.toml", process::id()));
        fs::copy(FILE, &file)?;
        address = "127.0.0.1:0";
    }
    let rules = Rules::new()
        .extension("user", |account: &Account| account.id)
        .extension("plan", |account: &Account| account.plan);
    read(&rules, &fs::read_to_string(&file)?)?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let app = app(&rules).into_make_service_with_connect_info::<SocketAddr>();
    let (told, said) = mpsc::channel(100);
    tokio::spawn(follow(file.clone(), rules, told));
    if !once {
        return Ok(axum::serve(listener, app).await?);
    }
    tokio::spawn(async move { axum::serve(listener, app).await });
    Caller {
        address,
        file,
        said,
    }
    .try_all()
    .await
}

/// Changes the file, and calls the service.
struct Caller {
    address: SocketAddr,
    file: PathBuf,
    said: mpsc::Receiver<String>,
}

impl Caller {
    /// The statuses of `times` calls, one after the other.
    async fn call(&self, times: usize, line: &str, user: &str) -> Result<Vec<u16>, Box<dyn Error>> {
        let mut statuses = Vec::new();
        for _ in 0..times {
            let mut stream = TcpStream::connect(self.address).await?;
            let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nx-user: {user}\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(b"connection: close\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let status = answer.split(' ').nth(1).ok_or("no status")?;
            statuses.push(status.parse()?);
        }
        Ok(statuses)
    }

    /// Writes a new file and renames it, so that half a file is never read, and waits until the
    /// service has reported the result.
    async fn change(&mut self, text: &str) -> Result<String, Box<dyn Error>> {
        let new = self.file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.file)?;
        Ok(self.said.recv().await.ok_or("nothing was said")?)
    }

    async fn try_all(mut self) -> Result<(), Box<dyn Error>> {
        let text = fs::read_to_string(FILE)?;
        assert_eq!(self.call(2, "POST /login", "-").await?, [200, 429]);
        assert_eq!(self.call(3, "GET /export/7", "ann").await?, [200, 200, 429]);
        assert_eq!(self.call(2, "GET /export/7", "-").await?, [200, 429]);
        assert_eq!(self.call(1, "GET /api/users", "-").await?, [500]);
        // It is in shadow.
        assert_eq!(self.call(4, "GET /", "-").await?, [200; 4]);

        let few = text.replace("1000/day", "2/day");
        assert_eq!(self.change(&few).await?, IN_FORCE);
        assert_eq!(
            self.call(3, "GET /api/users", "ann").await?,
            [200, 200, 429]
        );
        assert_eq!(self.call(3, "GET /api/users", "gus").await?, [200; 3]);

        // Two of the four were used already.
        let more = text.replace("1000/day", "4/day");
        assert_eq!(self.change(&more).await?, IN_FORCE);
        assert_eq!(
            self.call(3, "GET /api/users", "ann").await?,
            [200, 200, 429]
        );

        let said = self.change(&text.replace("3/h", "3/fortnight")).await?;
        assert!(
            said.contains("at line 59") && said.contains("`quota`: \"3/fortnight\""),
            "{said}"
        );
        assert_eq!(self.call(1, "GET /api/users", "ann").await?, [429]);

        let said = self.change("").await?;
        assert!(
            said.starts_with("the old rules stay") && said.contains("at least one"),
            "{said}"
        );
        fs::remove_file(&self.file)?;
        let said = self.said.recv().await.ok_or("nothing was said")?;
        assert!(said.starts_with("the old rules stay"), "{said}");
        assert_eq!(self.call(1, "GET /api/users", "ann").await?, [429]);

        // When it is enforced, it has the counts from shadow.
        let enforced = more.replace("shadow = true", "shadow = false");
        assert_eq!(self.change(&enforced).await?, IN_FORCE);
        assert_eq!(self.call(2, "GET /", "-").await?, [429; 2]);
        Ok(fs::remove_file(&self.file)?)
    }
}
