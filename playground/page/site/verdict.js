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
  const whose = shared ? "all callers" : "one caller";
  const [ones, others] = limits.map(({ members }) => members);
  const pairs = ones.flatMap((one) => others.filter((other) => isSame(one.bound, other.bound))
    .map((other) => [one, other]));
  const found = pairs.flatMap(([{ bound, worst }, other]) => {
    const where = `In the ${bound.span} with most ${counts(bound)} of ${whose}`;
    const briefly = bound.micros === 0 ? "at any instant" : `in any ${bound.span}`;
    const here = { where, briefly, through: [worst, other.worst] };
    const [most, others] = [bound.most, other.bound.most];
    // Other traffic may get more through the one that lets less of this through.
    const isOtherwise = most && others && most !== others && (worst - other.worst) * (most - others) <= 0;
    return isOtherwise ? [here, { where: "With any traffic", briefly: "with any traffic", through: [most, others] }] : here;
  });
  if (pairs.every(([one, other]) => one.worst === other.worst)) {
    const briefly = `of all ${requests.at.length} requests`;
    found.push({ where: "Of all requests", briefly, through: limits.map(letThrough), isOfAll: true });
  }
  // Without a pair only all requests can be compared.
  if (pairs.length === 0) found[0].before = "In a span these limits count different things.";
  return found;
}

/** How many requests a limit lets through, at once or later. */
const letThrough = ({ numbers }) => numbers.admitted + numbers.delayed;

const lessNotMore = (one, other) => `${Math.min(one, other)}, not ${Math.max(one, other)}.`;

/** The comparisons in whole sentences. */
function verdict(comparisons) {
  const said = comparisons.flatMap(({ before, where, through: [one, other] }) => [
    ...(before ? [before] : []),
    one === other ? `${where} both limits let as much through: ${one}.`
      : `${where} limit ${one < other ? 1 : 2} lets less through: ${lessNotMore(one, other)}`,
  ]);
  return [...new Set(said)].join(" ");
}

/** What a small screen shows below the question. Of two limits the verdict comes first. */
function inFewWords(comparisons, { limits, requests }) {
  const ofAll = `of ${requests.at.length} requests get through.`;
  if (comparisons.length === 0) {
    return limits.map((limit, which) => {
      const title = limits.length > 1 ? `Limit ${which + 1}: ` : "";
      return title + (limit.error ?? `${letThrough(limit)} ${ofAll} Most in any one span: `
        + `${limit.worst.most} of at most ${limit.bound.most ?? "?"}.`);
    }).join(" ");
  }
  const said = comparisons.map(({ briefly, through: [one, other] }) => (one === other
    ? `Both let as much through ${briefly}: ${one}.`
    : `Limit ${one < other ? 1 : 2} lets less through ${briefly}: ${lessNotMore(one, other)}`));
  if (!comparisons.some(({ isOfAll }) => isOfAll)) said.push(`${limits.map(letThrough).join(" and ")} ${ofAll}`);
  return [...new Set(said)].join(" ");
}
