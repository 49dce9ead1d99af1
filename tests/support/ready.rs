//! The output of a future that has nothing to wait for.

use futures_util::FutureExt;

/// The output; panics if there is none yet.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    let output = future.now_or_never();
    output.expect("nothing here has anything to wait for")
}
