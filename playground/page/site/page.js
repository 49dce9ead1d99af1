"use strict";
// Runs the simulation in the module, and shows the result.

let choice = choiceOfAddress();
let output = null;
let lines = [];
let view = [0, 1];
let index = 0;
let bucketShown = null;

/** Asks the simulation: the question has the choice of limits and traffic. */
function ask(question) {
  return JSON.parse(wasm_bindgen.answer(JSON.stringify(question)));
}

/** Runs and shows everything for the current choice. */
function run() {
  const { limits, traffic } = choice;
  output = ask({ ask: "run", limits, traffic });
  // A long recording makes an address that is too long to share.
  const address = encodeURIComponent(JSON.stringify(choice));
  history.replaceState(null, "", address.length < 8000 ? `#${address}` : "#");
  for (const button of $("tries").children) {
    const isChosen = JSON.stringify(TRIES[button.textContent]) === JSON.stringify(choice);
    button.setAttribute("aria-pressed", isChosen);
    // It stays while the example is changed.
    if (isChosen) $("note").textContent = NOTES[button.textContent] ?? "";
  }
  $("error").hidden = !output.error;
  $("error").textContent = output.error ?? "";
  const comparisons = output.error ? [] : compared(output, traffic.shared);
  $("less").textContent = verdict(comparisons);
  const [compares, more] = output.error ? ["", output.error] : inFewWords(comparisons, output);
  $("answer-text").replaceChildren(element("b", {}, compares), more);
  if (output.error) {
    $("panels").replaceChildren();
    $("rows").replaceChildren();
    $("request").textContent = "";
    $("whys").replaceChildren();
    return;
  }
  lines = [];
  const several = output.limits.length > 1;
  $("panels").replaceChildren(...output.limits.map((limit, which) => panel(limit, which, several)));
  view = whole();
  bucketShown = null;
  for (const line of lines) line.timeline.show(output.requests, line.run, view);
  // The first request that any limit refuses.
  const refused = lines.map((line) => line.run.outcome.indexOf(2)).filter((which) => which >= 0);
  move(refused.length > 0 ? Math.min(...refused) : 0);
  compare();
}

/** From the beginning to a little after the last request, and the last delay. */
function whole() {
  const { at } = output.requests;
  const ends = output.limits.filter((limit) => !limit.error)
    .map((limit) => limit.delay.reduce((most, delay, which) => Math.max(most, at[which] + delay), 0));
  const end = Math.max(1000, at.at(-1) ?? 0, ...ends);
  return [0, end * 1.04];
}

/** Rust or a name in it, which a line may end in between its parts, but not in a word. */
function breakable(rust) {
  const parts = rust.split(/(?<=::|\()(?!\))|(?=\.[a-z])/);
  return parts.flatMap((part) => [element("wbr"), part]).slice(1);
}

/** So many of what is counted, and in which span, without the number. */
function countedIn(bound, number) {
  const counts = number === 1 ? bound.counts.replace(/s\b/, "") : bound.counts;
  return `${counts} ${bound.micros === 0 ? "at any instant" : `in ${bound.span}`}`;
}

function number(name, called, value, more = "") {
  const swatch = OUTCOMES.includes(name) ? [element("span", { class: "swatch", style: `background:var(--${name})` })] : [];
  return element("div", {}, element("dt", {}, ...swatch, called),
    element("dd", { "data-is": name }, element("b", {}, String(value)), more));
}

function panel(limit, which, several) {
  const title = several ? `Limit ${which + 1}` : "Limit";
  if (limit.error) {
    return element("section", { class: "panel" }, element("h2", {}, title), element("p", { class: "error", role: "alert" }, limit.error));
  }
  const { numbers, members } = limit;
  const called = members.length > 1 ? members.map((member) => member.called).join(", and ") : element("code", {}, ...breakable(limit.rust));
  const found = members.flatMap(({ called, worst, bound }, place) => {
    const most = bound.most ?? "? (not computed here)";
    return [
      element("dd", { "data-is": "worst", "data-member": place }, element("b", {}, `${worst}`),
        ` ${countedIn(bound, worst)}, with any traffic at most `, element("b", {}, `${most}`), ` (${bound.formula})`,
        members.length > 1 ? `: ${called}` : ""),
      element("dd", { class: "soft", "data-is": "symbols" }, bound.symbols),
    ];
  });
  const values = [
    number("admitted", "admitted", numbers.admitted),
    number("delayed", "delayed", numbers.delayed, numbers.longestDelay ? ` up to ${numbers.longestDelay}` : ""),
    number("refused", "refused", numbers.refused),
    element("div", {}, element("dt", {}, "most in any one span"), ...found),
    number("wait", "longest announced wait", numbers.longestWait ?? "none", numbers.retryAfter ? ` Retry-After: ${numbers.retryAfter}` : ""),
  ];
  if (limit.smallestBurst !== null) {
    values.push(number("burst", "smallest burst that refuses none", limit.smallestBurst));
  }
  const zoomed = (next) => {
    // Do not zoom out further than the whole run.
    const all = whole();
    view = next && next[1] - next[0] < all[1] ? next : all;
    for (const line of lines) line.timeline.show(output.requests, line.run, view);
    left();
  };
  const timeline = new Timeline(`Requests, ${title}`, move, zoomed);
  lines.push({ timeline, run: limit, which });
  return element("section", { class: "panel", "data-limit": which }, element("h2", {}, title, ": ", called),
    element("dl", {}, ...values), timeline.box, code("Rust", limit.rust, breakable(limit.rust)), code("In a file", limit.toml.trimEnd()));
}

function code(called, text, parts = [text]) {
  const button = element("button", { type: "button", "aria-label": `Copy: ${called}` }, "Copy");
  const shown = element("pre", { "data-is": called === "Rust" ? "rust" : "file", "aria-label": called, tabindex: "0" }, ...parts);
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without permission to use the clipboard, select the text, to be copied by hand.
      getSelection().selectAllChildren(shown);
    }
  };
  return element("div", { class: "code" }, element("span", {}, called), shown, button);
}

/** Chooses a request. */
function move(next) {
  index = next;
  const { requests } = output;
  const at = requests.at[index];
  if (at === undefined) {
    $("request").textContent = "There are no requests.";
    $("whys").replaceChildren();
    return;
  }
  if (at < view[0] || at >= view[1]) {
    const span = view[1] - view[0];
    view = [at - span / 2, at + span / 2];
    for (const line of lines) line.timeline.show(requests, line.run, view);
    bucketShown = null;
  }
  const caller = requests.callers[requests.caller[index]] ?? "";
  $("request").textContent = `Request ${index + 1} of ${requests.at.length}, at ${seconds(at)}, of ${caller}, cost ${requests.cost[index]}.`;
  const { limits, traffic } = choice;
  const whys = ask({ ask: "why", limits, traffic, index }).limits;
  $("whys").replaceChildren(...lines.map(({ run: limit, which }) => {
    const outcome = OUTCOMES[limit.outcome[index]];
    const soFar = ` Most in any one span so far: ${limit.worst.soFar[index]} of at most ${limit.bound.most ?? "?"}.`;
    return element("p", { "data-why": which, "data-outcome": outcome },
      element("span", { class: "swatch", style: `background:var(--${outcome})` }),
      lines.length > 1 ? `Limit ${which + 1}: ` : "", whys[which].why, soFar);
  }));
  for (const { timeline, which } of lines) timeline.choose(index, whys[which].why);
  left();
}

/** Draws what is left in the bucket of the chosen request. */
function left() {
  const bucket = output.requests.bucket[index] ?? 0;
  const shown = `${bucket} ${view}`;
  if (shown === bucketShown || lines.length === 0) return;
  bucketShown = shown;
  const { limits, traffic } = choice;
  const from = Math.max(Math.floor(view[0]), 0);
  const until = Math.ceil(view[1]);
  const before = Math.round(((from - view[0]) / (view[1] - view[0])) * 600);
  const answer = ask({ ask: "left", limits, traffic, bucket, from, until, steps: 600 - before });
  for (const { timeline, which } of lines) {
    const values = answer.limits[which].left;
    timeline.fill([...Array(before).fill(values[0]), ...values]);
  }
}

/** All algorithms, with the quota and the burst of the first limit that has any. */
function compare() {
  const limit = choice.limits.flat().find((it) => it.quota !== undefined);
  const quota = limit?.quota ?? "10/s";
  const given = limit?.burst ?? limit?.capacity;
  const burst = typeof given === "number" ? given : null;
  const { rows, error } = ask({ ask: "compare", quota, burst, traffic: choice.traffic });
  $("compare").hidden = Boolean(error);
  // Mark the rows that admit most, among those that count units in a span of the quota.
  const inUnits = (rows ?? []).filter((row) => row.bound.counts.startsWith("units"));
  const most = Math.max(...inUnits.map((row) => row.worst));
  $("rows").replaceChildren(...(rows ?? []).map((row) => {
    const use = () => {
      choice.limits[0] = row.fields;
      form.replaceLimits(choice.limits);
    };
    const name = element("button", { type: "button", title: "Show this limit", onclick: use }, element("code", {}, ...breakable(row.rust)));
    const { admitted, delayed, refused, longestWait } = row.numbers;
    const isWorst = inUnits.includes(row) && row.worst === most;
    return element("tr", { "data-algorithm": row.algorithm, class: isWorst && "worst" }, element("td", {}, name),
      ...[admitted, delayed, refused, longestWait ?? "", `${row.worst} ${countedIn(row.bound, row.worst)}`, row.bound.most ?? "?"]
        .map((value) => element("td", {}, String(value))));
  }));
}

let form = null;
let waiting = 0;
/** Runs soon, and once for several key presses. */
function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(run, 80);
}

function begin() {
  form = new Form(choice, changed);
  $("form").onsubmit = (event) => event.preventDefault();
  $("tries").append(...Object.entries(TRIES).map(([called, to]) => {
    const take = () => {
      choice = structuredClone(to);
      form = new Form(choice, changed);
      run();
    };
    return element("button", { type: "button", onclick: take }, called);
  }));
  $("answer").onclick = () => $("results").scrollIntoView();
  const redraw = () => lines.forEach((line) => line.timeline.draw());
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("hashchange", () => {
    choice = choiceOfAddress();
    form = new Form(choice, changed);
    run();
  });
  run();
}

const bytes = Uint8Array.from(atob(MODULE), (character) => character.charCodeAt(0));
wasm_bindgen({ module_or_path: bytes }).then(begin, (error) => {
  $("error").hidden = false;
  $("error").textContent = `This browser cannot run the simulation: ${error}`;
});
