//! The simulation, as the page calls it.

use wasm_bindgen::prelude::wasm_bindgen;

/// Answers a question: JSON in, JSON out.
#[wasm_bindgen]
pub fn answer(question: &str) -> String {
    playground::answer::answer(question)
}
