//! Builds the page: one file with the module, its bindings, the algorithms, the scripts and the
//! style.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use playground::algorithms::description;

const TARGET: &str = "wasm32-unknown-unknown";
const SCRIPTS: [&str; 4] = ["form.js", "timeline.js", "verdict.js", "page.js"];

/// The whole page. The first build takes a while.
pub(crate) fn page() -> Result<String, Box<dyn Error>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let built = bindings(&workspace)?;
    let module = fs::read(built.join("module_bg.wasm"))?;
    let bindings = fs::read_to_string(built.join("module.js"))?;
    let site = workspace.join("site");
    let read = |name: &str| fs::read_to_string(site.join(name));
    let scripts: Result<Vec<_>, io::Error> = SCRIPTS.iter().map(|name| read(name)).collect();
    let scripts = scripts?.join("\n");
    let parts = [
        ("style", read("style.css")?),
        ("bindings", bindings),
        ("algorithms", description()),
        ("scripts", scripts),
        ("module", STANDARD.encode(module)),
    ];
    filled(read("index.html")?, &parts)
}

/// Each part in its place in the page.
fn filled(mut page: String, parts: &[(&str, String)]) -> Result<String, Box<dyn Error>> {
    for (name, part) in parts {
        if part.contains("</script") || part.contains("</style") {
            return Err(format!("the {name} would end where it stands in the page").into());
        }
        let place = format!("{{{{{name}}}}}");
        if page.matches(&place).count() != 1 {
            return Err(format!("the page has not one place {place}").into());
        }
        page = page.replacen(&place, part, 1);
    }
    Ok(page)
}

/// Builds the module and its bindings; returns the folder with both.
fn bindings(workspace: &Path) -> Result<PathBuf, Box<dyn Error>> {
    // Without rustup, the target came with the compiler, or cargo says what is missing.
    let installed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    if let Ok(installed) = installed
        && !String::from_utf8_lossy(&installed.stdout).contains(TARGET)
    {
        run(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    let target = workspace.join("target");
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        cargo.arg(arguments[0]).arg("--manifest-path");
        cargo
            .arg(workspace.join("Cargo.toml"))
            .args(&arguments[1..]);
        cargo.env("CARGO_TARGET_DIR", &target);
        cargo
    };
    run(&mut cargo(&[
        "build",
        "--quiet",
        "-p",
        "playground-module",
        "--release",
        "--target",
        TARGET,
    ]))?;
    let module = target.join(TARGET).join("release/playground_module.wasm");
    let folder = target.join("bindings");
    let mut bind = cargo(&["run", "--quiet", "-p", "playground-bindings", "--"]);
    run(bind.arg(module).arg(&folder))?;
    Ok(folder)
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?} failed: {status}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_one_place_and_does_not_end_it() {
        let fill = |page: &str, part: &str| filled(page.to_owned(), &[("style", part.to_owned())]);
        assert_eq!(fill("<{{style}}>", "a").unwrap(), "<a>");
        assert!(fill("<>", "a").is_err());
        assert!(fill("{{style}}{{style}}", "a").is_err());
        assert!(fill("{{style}}", "x</script>").is_err());
    }
}
