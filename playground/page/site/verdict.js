"use strict";
// Which of two limits lets less through; in whole sentences, and in few words for a small screen.

/**
 * What two limits let through, compared: in any one span, and where neither lets less through there,
 * of all requests. Each comparison says where, in whole words and `briefly`.
 */
function compared({ limits, requests }, shared) {
  if (limits.length < 2 || limits.some(({ error }) => error)) return [];
  // What a queue releases is let through then, as what the others admit is at once.
  const counts = ({ counts }) => counts.replace(" released", "");
  const isSame = (one, other) => one.micros === other.micros && counts(one) === counts(other);
  const whose = shared ? "all callers'" : "one caller's";
  const [ones, others] = limits.map(({ members }) => members);
  const pairs = ones.flatMap((one) => others.filter((other) => isSame(one.bound, other.bound))
    .map((other) => [one, other]));
  const found = pairs.flatMap(([{ bound, worst }, other]) => {
    // No line ends between a number and its unit.
    const briefly = bound.micros === 0 ? "at any instant" : `in any ${bound.span.replace(" ", "\u00a0")}`;
    const where = `Of ${whose} ${counts(bound)} ${briefly}`;
    const here = { where, briefly, through: [worst, other.worst] };
    const [most, others] = [bound.most, other.bound.most];
    // Other traffic may get more through the one that lets less of this through.
    const isOtherwise = most && others && most !== others && (worst - other.worst) * (most - others) <= 0;
    const always = { where: "With any traffic", briefly: "with any traffic", through: [most, others] };
    return isOtherwise ? [here, always] : here;
  });
  if (pairs.every(([one, other]) => one.worst === other.worst)) {
    const isOther = pairs.length === 0 ? "In a span these limits count different things. " : "";
    const briefly = `of all ${requests.at.length} requests`;
    found.push({ where: `${isOther}Of all requests`, briefly, through: limits.map(letThrough), isOfAll: true });
  }
  return found;
}

/** How many requests a limit lets through, at once or later. */
const letThrough = ({ numbers }) => numbers.admitted + numbers.delayed;

const lessNotMore = (one, other) => `${Math.min(one, other)}, not ${Math.max(one, other)}.`;

/** The comparisons in whole sentences. */
function verdict(comparisons) {
  const said = comparisons.map(({ where, through: [one, other] }) => (one === other
    ? `${where} both limits let as much through: ${one}.`
    : `${where} limit ${one < other ? 1 : 2} lets less through: ${lessNotMore(one, other)}`));
  return [...new Set(said)].join(" ");
}

/**
 * What a small screen shows below the question, in two parts: the comparisons in few words, and how
 * many requests get through, where no comparison says that.
 */
function inFewWords(comparisons, { limits, requests }) {
  const all = requests.at.length;
  if (comparisons.length === 0) {
    const each = limits.map((limit, which) => {
      const title = limits.length > 1 ? `Limit ${which + 1}: ` : "";
      return title + (limit.error ?? `${letThrough(limit)} of ${all} requests get through. Most in any one span: `
        + `${limit.worst.most} of at most ${limit.bound.most ?? "?"}.`);
    });
    return ["", each.join(" ")];
  }
  // What differs comes first.
  const isEqual = ({ through: [one, other] }) => Number(one === other);
  const sorted = comparisons.toSorted((one, other) => isEqual(one) - isEqual(other));
  const said = sorted.map(({ briefly, through: [one, other] }) => (one === other
    ? `Both let ${one} through ${briefly}.`
    : `Limit ${one < other ? 1 : 2} lets less through ${briefly}: ${lessNotMore(one, other)}`));
  const isSaid = comparisons.some(({ isOfAll }) => isOfAll);
  return [[...new Set(said)].join(" "), isSaid ? "" : ` Let through: ${limits.map(letThrough).join(" and ")} of ${all}.`];
}
