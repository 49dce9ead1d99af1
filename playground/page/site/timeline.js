"use strict";
// The line of time of one limit: who asked, who left when, and what a bucket had left.

const OUTCOMES = ["admitted", "delayed", "refused"];
const BAR = 4;
const ASKED_TOP = 20;
// Where the lanes stand, without delays and with them.
const AT_ONCE = { asked: 100, worst: 110, left: 178 };
const WITH_DELAYS = { asked: 92, leavesTop: 118, leaves: 174, worst: 184, left: 248 };

class Timeline {
  /** `moved(index)` is called when a request is chosen, `zoomed(from, until)` for another view. */
  constructor(label, moved, zoomed) {
    this.moved = moved;
    this.zoomed = zoomed;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.box = element("div", { class: "line", role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "1" }, this.canvas);
    this.box.onkeydown = (event) => this.key(event);
    this.box.onclick = (event) => this.clicked(event);
  }

  show(requests, run, view) {
    Object.assign(this, { requests, run, view });
    this.lanes = run.numbers.delayed > 0 ? WITH_DELAYS : AT_ONCE;
    this.box.classList.toggle("delays", this.lanes === WITH_DELAYS);
    this.box.setAttribute("aria-valuemax", requests.at.length);
    this.draw();
  }

  choose(index, text) {
    this.index = index;
    this.box.setAttribute("aria-valuenow", index + 1);
    this.box.setAttribute("aria-valuetext", text);
    this.draw();
  }

  /** What is left, at evenly spaced instants of the view. */
  fill(left) {
    this.left = left;
    this.draw();
  }

  clicked(event) {
    const { left, width } = this.canvas.getBoundingClientRect();
    const [from, until] = this.view;
    const at = from + ((event.clientX - left) / width) * (until - from);
    const { at: instants } = this.requests;
    if (instants.length === 0) return;
    // The nearest one; of those at the same instant, the one as far up as the click is.
    const after = firstFrom(instants, at);
    const before = Math.max(after - 1, 0);
    const nearest = after < instants.length && instants[after] - at < at - instants[before] ? after : before;
    const first = firstFrom(instants, instants[nearest]);
    const beyond = firstFrom(instants, instants[nearest] + 1);
    const top = this.canvas.getBoundingClientRect().top;
    const { asked } = this.lanes;
    const height = Math.min(Math.max((asked - (event.clientY - top)) / (asked - ASKED_TOP), 0), 0.999);
    this.moved(first + Math.floor(height * (beyond - first)));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.requests.at.length - 1;
    const refused = (index) => this.run.outcome[index] === 2;
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 100, PageDown: -100 }[event.key];
    let next = this.index;
    if (step) next += step;
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = last;
    else if (event.key === "n") do next += 1; while (next <= last && !refused(next));
    else if (event.key === "p") do next -= 1; while (next >= 0 && !refused(next));
    else if (event.key === "w") next = this.run.worst.soFar.indexOf(this.run.worst.most);
    else if (["+", "=", "-", "0"].includes(event.key)) this.zoom(event.key);
    else return;
    event.preventDefault();
    if (step || ["Home", "End"].includes(event.key)) next = Math.min(Math.max(next, 0), last);
    if (next >= 0 && next <= last && next !== this.index) this.moved(next);
  }

  zoom(key) {
    const [from, until] = this.view;
    const span = key === "-" ? (until - from) * 2 : Math.max((until - from) / 2, 1000);
    const middle = this.requests.at[this.index] ?? 0;
    this.zoomed(key === "0" ? null : [middle - span / 2, middle + span / 2]);
  }

  draw() {
    if (!this.run || !this.canvas.isConnected) return;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const ink = getComputedStyle(document.documentElement);
    const colour = (name) => ink.getPropertyValue(`--${name}`);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    const [from, until] = this.view;
    const x = (at) => ((at - from) / (until - from)) * width;
    const { asked, leavesTop, leaves, worst, left } = this.lanes;

    const arrives = (index) => this.requests.at[index];
    this.bars(context, colour, { name: "asked", base: asked, top: ASKED_TOP, width, place: arrives, of: () => true });
    if (leaves) {
      const leavesAt = (index) => this.requests.at[index] + this.run.delay[index];
      const isAdmitted = (index) => this.run.outcome[index] < 2;
      this.bars(context, colour, { name: "leaves", base: leaves, top: leavesTop, width, place: leavesAt, of: isAdmitted });
    }
    this.worst(context, colour, x, worst);
    this.area(context, colour, width);
    this.axis(context, colour, x, height, width);
    if (this.index !== undefined && this.requests.at.length > 0) {
      const at = Math.round(x(this.requests.at[this.index])) + 0.5;
      context.strokeStyle = colour("mark");
      context.setLineDash([3, 3]);
      context.strokeRect(at, 0, 0, left);
      context.setLineDash([]);
      context.fillStyle = colour("mark");
      context.beginPath();
      context.moveTo(at - 5, 0);
      context.lineTo(at + 5, 0);
      context.lineTo(at, 7);
      context.fill();
    }
  }

  /** Stacks units in columns of a few pixels, so that any number of requests is drawn as fast. */
  bars(context, colour, { name, base, top, width, place, of }) {
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    context.fillText(name, width - 2, top - 7);
    context.fillStyle = colour("line");
    context.fillRect(0, base, width, 1);
    const [from, until] = this.view;
    const { at: instants } = this.requests;
    // Where there are few they stand where they are, so that an even flow looks even.
    const inside = firstFrom(instants, until) - firstFrom(instants, from);
    const step = inside * 1.5 <= width ? 1 : BAR;
    const bar = Math.min(Math.max(Math.floor(width / Math.max(inside, 1)) - 1, 1), BAR - 1);
    const columns = Math.ceil(width / step);
    const stacks = OUTCOMES.map(() => new Float64Array(columns));
    const sums = new Float64Array(columns);
    let most = 1;
    const { cost } = this.requests;
    for (let index = 0; index < cost.length; index += 1) {
      const at = place(index);
      if (at < from || at >= until || !of(index)) continue;
      const column = Math.floor(((at - from) / (until - from)) * columns);
      stacks[this.run.outcome[index]][column] += Math.max(cost[index], 0.2);
      sums[column] += Math.max(cost[index], 0.2);
      most = Math.max(most, sums[column]);
    }
    const unit = (base - top) / Math.max(most, 4);
    const bottoms = new Float64Array(columns).fill(base);
    OUTCOMES.forEach((outcome, which) => {
      context.fillStyle = colour(outcome);
      stacks[which].forEach((units, column) => {
        const height = units * unit;
        bottoms[column] -= height;
        if (units > 0) context.fillRect(column * step, bottoms[column], step === 1 ? bar : BAR - 1, Math.max(height, 1));
      });
    });
  }

  worst(context, colour, x, y) {
    const { worst, bound } = this.run;
    if (worst.most === 0 || bound.micros === 0) return;
    const [from, until] = [x(worst.until - bound.micros), x(worst.until)];
    context.fillStyle = colour("mark");
    context.fillRect(from, y, Math.max(until - from, 2), 2);
    const text = `most in ${bound.span}: ${worst.most}`;
    const fits = until + 6 + context.measureText(text).width < this.canvas.clientWidth;
    context.textAlign = fits ? "left" : "right";
    context.fillText(text, fits ? until + 6 : Math.max(from - 6, 90), y + 5);
  }

  area(context, colour, width) {
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    const { left: base } = this.lanes;
    context.fillText(`left, of ${this.run.limit ?? 0}`, width - 2, base - 42);
    if (!this.left || !this.run.limit) return;
    const step = width / this.left.length;
    const y = (left) => base - (left / this.run.limit) * 36;
    context.beginPath();
    context.moveTo(0, base);
    this.left.forEach((left, index) => {
      context.lineTo(index * step, y(left));
      context.lineTo((index + 1) * step, y(left));
    });
    context.lineTo(width, base);
    context.fillStyle = colour("left");
    context.fill();
    context.strokeStyle = colour("admitted");
    context.lineWidth = 1;
    context.stroke();
  }

  axis(context, colour, x, height, width) {
    const [from, until] = this.view;
    const rough = (until - from) / Math.max(width / 90, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((it) => it >= rough);
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    for (let at = Math.max(Math.ceil(from / step) * step, 0); at < until; at += step) {
      context.fillRect(x(at), this.lanes.left, 1, 5);
      const fits = x(at) + 3 + context.measureText(seconds(at)).width < width;
      if (fits) context.fillText(seconds(at), x(at) + 3, height - 4);
    }
  }
}

/** Where the first of these ascending numbers is that is not less. */
function firstFrom(numbers, least) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

function seconds(micros) {
  return `${Number((micros / 1e6).toFixed(6))} s`;
}
