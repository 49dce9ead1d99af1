//! What a server replies that is none of ours: each call is answered, with an error or a decision
//! that makes sense.
//!
//! The first byte is the limit, the second one what is asked, the third one the form of the reply.
//! What was leased or refused before is remembered for the next input.

#![no_main]

use std::{
    net::Ipv4Addr,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};
use tollgate::store::{RedisConnection, RedisStore};
use tollgate_fuzz::every_limit;
use tollgate_properties::{call::Call, shared::SharedLimiter, subject::Subject};

/// What is replied to a script.
type Reply = Arc<Mutex<Vec<u8>>>;

struct Client {
    runtime: Runtime,
    reply: Reply,
    /// Each limit, over a plain store, and over one that leases and remembers refusals.
    all: Vec<[Box<dyn SharedLimiter>; 2]>,
}

static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build();
    let (runtime, reply) = (runtime.expect("a runtime"), Reply::default());
    let stores = runtime.block_on(async {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let port = server.local_addr().expect("a port").port();
        let known = Arc::clone(&reply);
        tokio::spawn(async move {
            while let Ok((stream, _)) = server.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&known)));
            }
        });
        let store = || {
            let url = format!("redis://127.0.0.1:{port}");
            let connection = RedisConnection::from_url(&url).expect("a URL");
            RedisStore::builder(connection).deadline(Duration::from_secs(5))
        };
        let both = store().remember_refusals(Duration::from_secs(1)).build();
        [store().build(), both.leased(Duration::from_millis(5))]
    });
    let limits = every_limit();
    let over_both = |limit: &Subject| {
        stores
            .each_ref()
            .map(|store| limit.bucket.limiter_over(store.clone(), "key".to_owned()))
    };
    Client {
        runtime,
        reply,
        all: limits.iter().map(over_both).collect(),
    }
});

/// Reads commands, and replies to those that run a script.
async fn serve(stream: TcpStream, reply: Reply) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut stream).await? {
            let length = number(&mut stream).await?;
            let mut word = vec![0; length + 2];
            stream.read_exact(&mut word).await.ok()?;
            words.push(word);
        }
        let first = words.first().map(|word| word.to_ascii_uppercase());
        let reply = match first.as_deref().unwrap_or_default() {
            b"EVALSHA\r\n" => reply.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            b"PING\r\n" => b"+PONG\r\n".to_vec(),
            b"ROLE\r\n" => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_vec(),
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        stream.write_all(&reply).await.ok()?;
    }
}

/// The number behind a byte for its type.
async fn number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().get(1..)?.parse().ok()
}

/// A reply of the protocol.
fn encoded(form: u8, data: &[u8]) -> Vec<u8> {
    let bulk = |data: &[u8]| [format!("${}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
    match form % 4 {
        0 => bulk(data),
        // A list of texts, with this byte between them.
        1 => {
            let items: Vec<_> = data.split(|&byte| byte == 0xFE).map(bulk).collect();
            [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat()
        }
        2 => {
            let is_text = |byte: &u8| (b' '..=b'~').contains(byte);
            let text = data.iter().copied().filter(is_text).collect();
            [b"-".to_vec(), text, b"\r\n".to_vec()].concat()
        }
        _ => format!(":{}\r\n", data.len()).into_bytes(),
    }
}

fuzz_target!(|data: &[u8]| {
    let [which, asked, form, ref data @ ..] = *data else {
        return;
    };
    let client = &*CLIENT;
    let limiter = &client.all[usize::from(which) % client.all.len()][usize::from(asked >> 7)];
    *client.reply.lock().unwrap_or_else(PoisonError::into_inner) = encoded(form, data);
    let call = match asked % 5 {
        0 => Call::Check(1),
        1 => Call::Look(1),
        2 => Call::Debit(3),
        3 => Call::Refund(1),
        _ => Call::Check(0),
    };
    match client.runtime.block_on(limiter.ask(call)) {
        Ok(Some(admission)) => {
            let decision = &admission.decision;
            assert!(decision.remaining() <= decision.limit(), "{decision:?}");
            assert!(!decision.is_admitted() || decision.retry_after().is_none());
        }
        Ok(None) => {}
        Err(error) => {
            let why = error.to_string();
            assert!(!why.contains("no answer in"), "{why}");
        }
    }
});
