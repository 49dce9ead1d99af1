//! Writes the JavaScript that calls a module: `playground-bindings MODULE FOLDER`.

use std::{env, error::Error, fs};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [module, folder] = &*arguments else {
        return Err("usage: playground-bindings MODULE FOLDER".into());
    };
    fs::create_dir_all(folder)?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).no_modules(true)?;
    bindgen
        .typescript(false)
        .out_name("module")
        .generate(folder)?;
    Ok(())
}
