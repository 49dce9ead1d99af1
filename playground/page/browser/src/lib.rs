//! The page in Chromium, as a person uses it: reads what is shown, clicks, types and presses keys.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use headless_chrome::{
    Browser, LaunchOptions, Tab,
    protocol::cdp::{Browser as BrowserDomain, Emulation, Page as PageDomain, Runtime},
};
use serde_json::Value;

/// How long a page may take on a busy machine until it shows what is expected.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Remembers what goes wrong in the page, from its first script on.
const REMEMBER_ERRORS: &str = "window.wrong = [];
    addEventListener('error', (event) => wrong.push(event.message));
    addEventListener('unhandledrejection', (event) => wrong.push(String(event.reason)));
    addEventListener('securitypolicyviolation', (event) => wrong.push(event.blockedURI));";

/// The page in a browser of its own, which ends with it.
pub struct Page {
    tab: Arc<Tab>,
    _browser: Browser,
}

impl Page {
    /// Opens the page from its file, in a window of this size in pixels, and waits for its answers.
    ///
    /// # Panics
    ///
    /// The page cannot be built, or there is no Chromium.
    pub fn open(width: u32, height: u32) -> Self {
        // Before the browser is there, which leaves where nobody asks for anything.
        let url = format!("file://{}", built().display());
        let options = LaunchOptions {
            // A container has no sandbox to offer, and this is a page of ours.
            sandbox: false,
            window_size: Some((width, height)),
            idle_browser_timeout: Duration::from_secs(120),
            args: vec![OsStr::new("--host-resolver-rules=MAP * ~NOTFOUND")],
            ..LaunchOptions::default()
        };
        let browser = Browser::new(options).expect("Chromium: see scripts/chromium");
        let tab = browser.new_tab().unwrap();
        tab.set_default_timeout(TIMEOUT);
        tab.call_method(PageDomain::AddScriptToEvaluateOnNewDocument {
            source: REMEMBER_ERRORS.to_owned(),
            world_name: None,
            include_command_line_api: None,
            run_immediately: None,
        })
        .unwrap();
        tab.navigate_to(&url).unwrap();
        tab.wait_for_element("#rows tr").unwrap();
        Self {
            tab,
            _browser: browser,
        }
    }

    /// What a script returns.
    ///
    /// # Panics
    ///
    /// It throws.
    pub fn script(&self, script: &str) -> Value {
        let returned = self.tab.evaluate(script, true);
        let returned = returned.unwrap_or_else(|error| panic!("{script}: {error}"));
        let threw = returned.subtype == Some(Runtime::RemoteObjectSubtype::Error);
        assert!(!threw, "{script}: {:?}", returned.description);
        returned.value.unwrap_or(Value::Null)
    }

    /// The text of the first element that a selector finds; empty if there is none.
    pub fn text(&self, selector: &str) -> String {
        let selector = Value::from(selector);
        let text = self.script(&format!(
            "document.querySelector({selector})?.innerText ?? ''"
        ));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of an element is as expected.
    ///
    /// # Panics
    ///
    /// It is not for too long.
    pub fn shows(&self, selector: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let text = self.text(selector);
            if is_expected(&text) {
                return text;
            }
            assert!(begin.elapsed() < TIMEOUT, "{selector} shows {text:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks on the button with this text.
    pub fn press_button(&self, text: &str) {
        let path = format!("//button[normalize-space()=\"{text}\"]");
        let button = self.tab.find_element_by_xpath(&path);
        let button = button.unwrap_or_else(|error| panic!("no button {text:?}: {error}"));
        button.click().unwrap();
    }

    /// Types into a field, in the place of what was there.
    pub fn fill(&self, id: &str, text: &str) {
        self.script(&format!(
            "{{ const field = $('{id}'); field.focus(); field.select() }}"
        ));
        match text {
            "" => self.press("Delete"),
            _ => drop(self.tab.type_str(text).unwrap()),
        }
    }

    /// Chooses from a list.
    pub fn choose(&self, id: &str, value: &str) {
        self.script(&format!(
            "$('{id}').value = '{value}'; $('{id}').dispatchEvent(new Event('change'))"
        ));
    }

    /// Chooses a file in a field for files.
    pub fn choose_file(&self, id: &str, file: &Path) {
        let field = self.tab.find_element(&format!("#{id}")).unwrap();
        field.set_input_files(&[file.to_str().unwrap()]).unwrap();
    }

    /// What was copied last.
    pub fn copied(&self) -> String {
        self.tab
            .call_method(BrowserDomain::GrantPermissions {
                permissions: vec![
                    BrowserDomain::PermissionType::ClipboardReadWrite,
                    BrowserDomain::PermissionType::ClipboardSanitizedWrite,
                ],
                origin: None,
                browser_context_id: None,
            })
            .unwrap();
        let text = self.script("navigator.clipboard.readText()");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key where the focus is.
    pub fn press(&self, key: &str) {
        self.tab.press_key(key).unwrap();
    }

    /// Clicks on an element, at this part of its width and height.
    pub fn click_at(&self, selector: &str, across: f64, down: f64) {
        let element = self.tab.find_element(selector).unwrap();
        element.scroll_into_view().unwrap();
        let place = element.get_box_model().unwrap();
        let corner = place.content.top_left;
        self.tab
            .click_point(headless_chrome::browser::tab::point::Point {
                x: corner.x + across * place.width,
                y: corner.y + down * place.height,
            })
            .unwrap();
    }

    /// Shows the page on a screen of this size in pixels, also one that is too narrow for a window.
    pub fn resize(&self, width: u32, height: u32) {
        self.tab
            .call_method(Emulation::SetDeviceMetricsOverride {
                width,
                height,
                device_scale_factor: 1.0,
                mobile: false,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .unwrap();
    }

    /// Shows the page as to someone who prefers `dark` or `light`.
    pub fn prefers(&self, scheme: &str) {
        let feature = Emulation::MediaFeature {
            name: "prefers-color-scheme".to_owned(),
            value: scheme.to_owned(),
        };
        self.tab
            .call_method(Emulation::SetEmulatedMedia {
                media: None,
                features: Some(vec![feature]),
            })
            .unwrap();
    }

    /// Nothing went wrong in the page, and it has asked for nothing.
    ///
    /// # Panics
    ///
    /// Something has, or it has.
    pub fn is_well(&self) {
        let wrong = self.script("JSON.stringify(wrong)");
        assert_eq!(wrong, "[]", "what went wrong in the page");
        let asked = self.script("performance.getEntriesByType('resource').length");
        assert_eq!(asked, 0, "what the page has asked for");
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap()
}

/// The program that serves the page, at a port that the system chooses; it ends with the value.
pub struct Server {
    program: Child,
    address: String,
}

impl Server {
    /// Starts it, and waits until it says where it is.
    ///
    /// # Panics
    ///
    /// It says nothing.
    pub fn start() -> Self {
        // It is there: the page was built by it.
        built();
        let mut program = Command::new("cargo");
        program.args(["run", "--quiet", "-p", "playground", "--", "--port", "0"]);
        program.current_dir(root()).stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        let mut line = String::new();
        let said = program.stdout.as_mut().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("it says {line:?}"));
        Self {
            address: address.to_owned(),
            program,
        }
    }

    /// What it answers to whom asks for the page: a whole response.
    pub fn answer(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The page, as the tests open it.
///
/// # Panics
///
/// It cannot be built.
pub fn text_of_the_page() -> String {
    fs::read_to_string(built()).unwrap()
}

/// The page as one file, built once for all tests.
fn built() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let root = root();
        let folder = root.join("playground/page/target/site");
        let mut cargo = Command::new("cargo");
        cargo.args(["run", "--quiet", "-p", "playground", "--", "build"]);
        let status = cargo.arg(&folder).current_dir(&root).status().unwrap();
        assert!(status.success(), "the page was not built: {status}");
        folder.join("index.html")
    })
}
