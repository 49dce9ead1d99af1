//! Replays a log: one thread reads it, and one for each scenario decides.

use std::{
    io, mem,
    sync::{Arc, mpsc},
    thread,
};

use crate::{asked::Asked, extensions::ExtensionSources, logged::Logged, scenario::Scenario};

/// How many requests go from thread to thread at once.
const AT_ONCE: usize = 512;

/// How many such batches wait for a scenario.
const MAX_WAITING: usize = 2;

type Batch = Arc<Vec<Asked>>;

/// Runs all requests of a log through each scenario.
///
/// # Errors
///
/// The log could not be read on.
pub fn replay(
    log: impl Iterator<Item = io::Result<Box<Logged>>>,
    extensions: &ExtensionSources,
    scenarios: Vec<Scenario>,
) -> io::Result<Vec<Scenario>> {
    thread::scope(|scope| {
        // Batches that all scenarios have seen come back to be refilled: their memory is reused.
        let (give_back, returned) = mpsc::channel::<Vec<Asked>>();
        let mut senders = Vec::new();
        let mut deciding = Vec::new();
        for mut scenario in scenarios {
            let (sender, receiver) = mpsc::sync_channel::<Batch>(MAX_WAITING);
            let give_back = give_back.clone();
            senders.push(sender);
            deciding.push(scope.spawn(move || {
                for batch in receiver {
                    for asked in batch.iter() {
                        scenario.ask(asked);
                    }
                    if let Some(batch) = Arc::into_inner(batch) {
                        // After the last line nobody receives it.
                        let _ = give_back.send(batch);
                    }
                }
                scenario
            }));
        }
        let read = send_all(log, extensions, &senders, &returned);
        drop(senders);
        let decided = deciding.into_iter().map(|thread| match thread.join() {
            Ok(scenario) => scenario,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let decided = decided.collect();
        read.map(|()| decided)
    })
}

fn send_all(
    log: impl Iterator<Item = io::Result<Box<Logged>>>,
    extensions: &ExtensionSources,
    senders: &[mpsc::SyncSender<Batch>],
    returned: &mpsc::Receiver<Vec<Asked>>,
) -> io::Result<()> {
    let mut batch: Vec<Asked> = Vec::with_capacity(AT_ONCE);
    let mut filled = 0;
    let send = |batch: Vec<Asked>| {
        let Some((last, others)) = senders.split_last() else {
            return;
        };
        let batch = Arc::new(batch);
        // A scenario that is gone has panicked, which `join` reports.
        for sender in others {
            let _ = sender.send(Arc::clone(&batch));
        }
        // None is left here: a batch comes back from the scenario that is done with it last.
        let _ = last.send(batch);
    };
    for logged in log {
        if filled == batch.len() {
            batch.push(Asked::empty());
        }
        batch[filled].fill(logged?, extensions);
        filled += 1;
        if filled == AT_ONCE {
            let next = returned.try_recv();
            let next = next.unwrap_or_else(|_| Vec::with_capacity(AT_ONCE));
            send(mem::replace(&mut batch, next));
            filled = 0;
        }
    }
    batch.truncate(filled);
    send(batch);
    Ok(())
}
