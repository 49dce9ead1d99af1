"use strict";
// What is chosen: one limit or two, each alone or a tuple, and the traffic; in the fields of the
// form and in the address. A tuple is an array of its members.

// The fields of an algorithm are those that `algorithms.rs` has.
const numberField = (name, hint = "1", called) => ({ name, input: "number", hint, called });
const textField = (name, hint, called) => ({ name, input: "text", hint, called });
const REQUESTS = [
  { name: "shared", input: "check", called: "all callers share one bucket" },
  textField("runs", "0: ends at once", "a request takes"), numberField("spends", "as the cost", "it really spends"),
];
const SIMULATED = [
  numberField("requests"), textField("every", "1s", "repeated every"), textField("lasts", "10s", "for"),
  numberField("cost"), numberField("callers"), ...REQUESTS,
];
const SHAPES = {
  even: ["even", SIMULATED],
  bursts: ["bursts", SIMULATED],
  edge: ["at a window's edge", SIMULATED],
  zipf: ["mixed, by Zipf's law", SIMULATED],
  flood: ["a flood", SIMULATED],
  recording: ["a recording", [{ name: "recording", input: "recording" }, ...REQUESTS]],
};

const even = (requests, lasts) => ({ shape: "even", requests, every: "1s", lasts });
const TRIES = {
  "A window's edge": {
    limits: [{ algorithm: "fixed-window", quota: "10/s" }, { algorithm: "token-bucket", quota: "10/s" }],
    traffic: { shape: "edge", requests: 10, every: "1s", lasts: "4s" },
  },
  "40 at once each minute": {
    limits: [{ algorithm: "token-bucket", quota: "40/min", burst: 10 }],
    traffic: { shape: "bursts", requests: 40, every: "1min", lasts: "5min" },
  },
  "So many a second and a minute": {
    limits: [
      { algorithm: "token-bucket", quota: "5/s", burst: 10 },
      [{ algorithm: "token-bucket", quota: "5/s", burst: 10 }, { algorithm: "fixed-window", quota: "60/min" }],
    ],
    traffic: even(4, "2min"),
  },
  "A little too fast": {
    limits: [
      { algorithm: "token-bucket", quota: "10/s", burst: 20 },
      { algorithm: "leaky-bucket-queue", quota: "10/s", capacity: 20 },
    ],
    traffic: even(12, "20s"),
  },
  "Costs known afterwards": {
    limits: [
      { algorithm: "token-bucket", quota: "1000/min" },
      { algorithm: "token-bucket", quota: "1000/min", settled: true },
    ],
    traffic: { ...even(2, "6s"), cost: 300, runs: "700ms", spends: 90 },
  },
  "Guesses at a login": {
    limits: [{ algorithm: "sliding-log", quota: "5/min" }, { algorithm: "token-bucket", quota: "5/min" }],
    traffic: { shape: "even", requests: 1, every: "2s", lasts: "10min" },
  },
  "A flood in a shared bucket": {
    limits: [{ algorithm: "token-bucket", quota: "20/s", burst: 40 }],
    traffic: { shape: "flood", requests: 2, every: "1s", lasts: "30s", callers: 5, shared: true },
  },
  "10 000 from 50 callers": {
    limits: [{ algorithm: "token-bucket", quota: "10/s", burst: 20 }, { algorithm: "sliding-log", quota: "10/s" }],
    traffic: { shape: "zipf", requests: 100, every: "1s", lasts: "100s", callers: 50 },
  },
};

const NOTES = {
  "Guesses at a login": "A guess costs one unit. Against guessing take the limit that lets less through in any one span "
    + "of time: the first line of the results says which. To count only wrong passwords, tick “holds the cost while it "
    + "runs, charges what it spends” for both: see “Wrong passwords” in the cookbook of the docs.",
};

const MOST_MEMBERS = 3;
const MOST_BYTES = 4_000_000;
const membersOf = (limit) => [limit].flat();

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made[key] = value;
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** These fields of an object as inputs; `changed` is called with each new value. */
function inputs(fields, values, prefix, changed) {
  return fields.map(({ name, input: kind, hint, called }) => {
    const id = `${prefix}-${name}`;
    const value = values[name];
    const label = called ?? name.replaceAll("-", " ");
    const common = { id, "data-field": name };
    let input;
    if (kind === "check") {
      input = element("input", { ...common, type: "checkbox" });
      input.checked = value === true;
      input.onchange = () => changed(name, input.checked || undefined);
      return element("label", { class: "check", for: id }, input, label);
    }
    if (kind === "recording") {
      input = element("textarea", { ...common, spellcheck: "false", placeholder: "seconds cost caller, one request a line" });
      input.value = value ?? "";
      input.oninput = () => changed(name, input.value);
      const file = element("input", { type: "file", id: `${id}-file`, "aria-label": "Read a file" });
      const notice = element("span", { class: "error", role: "alert" });
      file.onchange = async () => {
        if (file.files.length === 0) return;
        // So many requests as are shown have no more, and a page can do nothing with a whole log.
        const [{ size }] = file.files;
        notice.textContent = size > MOST_BYTES ? `The file has ${size} bytes: at most ${MOST_BYTES} are read.` : "";
        if (size > MOST_BYTES) return;
        input.value = await file.files[0].text();
        changed(name, input.value);
      };
      return element("label", { class: "wide", for: id }, "seconds, cost, caller", input, file, notice);
    }
    const isNumber = kind === "number";
    input = element("input", { ...common, placeholder: hint, inputmode: isNumber ? "numeric" : "text", autocomplete: "off" });
    input.value = value ?? "";
    input.oninput = () => {
      const text = input.value.trim();
      if (text === "") changed(name, undefined);
      // What is no number is sent as it is: tollgate says what is wrong with it.
      else changed(name, isNumber && /^\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text);
    };
    return element("label", { for: id }, label, input);
  });
}

/** What an object has of these fields. */
function kept(values, fields) {
  return Object.fromEntries(Object.entries(values).filter(([name]) => fields.some((field) => field.name === name)));
}

/** The form of one choice, which it changes; `changed` is called then. */
class Form {
  constructor(choice, changed) {
    this.choice = choice;
    this.changed = changed;
    this.draw();
  }

  draw() {
    const { limits } = this.choice;
    const sets = limits.map((limit, index) => this.limit(limit, index));
    if (limits.length < 2) {
      const add = () => this.replaceLimits([...limits, { ...limits[0] }]);
      sets.push(element("p", {}, element("button", { type: "button", id: "add", onclick: add }, "Compare with another limit")));
    }
    $("limits").replaceChildren(...sets);
    this.traffic();
  }

  replaceLimits(limits) {
    this.choice.limits = limits;
    this.draw();
    this.changed();
  }

  limit(limit, index) {
    const members = membersOf(limit);
    const replaceMembers = (next) =>
      this.replaceLimits(this.choice.limits.with(index, next.length > 1 ? next : next[0]));
    const parts = [element("legend", {}, this.choice.limits.length > 1 ? `Limit ${index + 1}` : "Limit")];
    members.forEach((member, place) => {
      // The first keeps its name when others come.
      const prefix = place === 0 ? `limit${index}` : `limit${index}-${place + 1}`;
      const fields = this.member(member, prefix, (next) => replaceMembers(members.with(place, next)));
      if (place > 0) {
        const remove = () => replaceMembers(members.toSpliced(place, 1));
        fields.push(element("button", { type: "button", onclick: remove }, `Remove member ${place + 1}`));
      }
      const called = members.length > 1 && `Member ${place + 1}`;
      parts.push(element("div", { class: "member", role: called && "group", "aria-label": called }, ...fields));
    });
    if (members.length < MOST_MEMBERS) {
      const id = `limit${index}-and`;
      const add = () => {
        replaceMembers([...members, { algorithm: "fixed-window", quota: "100/min" }]);
        $(`limit${index}-${members.length + 1}-algorithm`).focus();
      };
      parts.push(element("p", {}, element("button", { type: "button", id, onclick: add }, "Add a limit that must have room too")));
    }
    if (index > 0) {
      const remove = () => this.replaceLimits(this.choice.limits.slice(0, 1));
      parts.push(element("button", { type: "button", onclick: remove }, `Remove limit ${index + 1}`));
    }
    return element("fieldset", {}, ...parts);
  }

  /** The fields of one algorithm; `replaced` is called with another one in its place. */
  member(limit, prefix, replaced) {
    const id = `${prefix}-algorithm`;
    const options = Object.keys(ALGORITHMS).map((name) =>
      element("option", { value: name, selected: name === limit.algorithm }, name.replaceAll("-", " ")));
    const select = element("select", { id }, ...options);
    select.onchange = () => {
      const fields = ALGORITHMS[select.value];
      const needed = fields.filter((field) => field.needed !== null).map((field) => [field.name, field.needed]);
      replaced({ algorithm: select.value, ...Object.fromEntries(needed), ...kept(limit, fields) });
      $(id).focus();
    };
    const fields = inputs(ALGORITHMS[limit.algorithm], limit, prefix, (name, value) => {
      if (value === undefined) delete limit[name];
      else limit[name] = value;
      this.changed();
    });
    return [element("label", { for: id }, "algorithm", select), ...fields];
  }

  traffic() {
    const { traffic } = this.choice;
    const options = Object.entries(SHAPES).map(([name, [called]]) =>
      element("option", { value: name, selected: name === traffic.shape }, called));
    const select = element("select", { id: "traffic-shape" }, ...options);
    select.onchange = () => {
      const fields = SHAPES[select.value][1];
      this.choice.traffic = { ...kept(traffic, fields), shape: select.value };
      this.traffic();
      this.changed();
      $("traffic-shape").focus();
    };
    const fields = inputs(SHAPES[traffic.shape][1], traffic, "traffic", (name, value) => {
      if (value === undefined) delete traffic[name];
      else traffic[name] = value;
      this.changed();
    });
    $("traffic").replaceChildren(element("legend", {}, "Traffic"),
      element("label", { for: "traffic-shape" }, "shape", select), ...fields);
  }
}

/** The choice that the address has, or the first to try. */
function choiceOfAddress() {
  try {
    const choice = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    if (choice.limits.flat().every((limit) => limit.algorithm in ALGORITHMS) && choice.traffic.shape in SHAPES) {
      return choice;
    }
  } catch {
    // It has none.
  }
  return structuredClone(Object.values(TRIES)[0]);
}
