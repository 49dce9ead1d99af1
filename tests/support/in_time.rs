//! What would wait for ever if it waited for itself.

use std::{panic::resume_unwind, sync::mpsc, thread, time::Duration};

/// Fails if it takes as long as only a deadlock does.
pub(crate) fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(300)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("threads wait for each other"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = running.join() {
                resume_unwind(panic);
            }
        }
    }
}
