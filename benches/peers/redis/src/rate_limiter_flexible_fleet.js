// One key, asked about by limiters with connections of their own, which remember who is over the
// limit: prints how many requests there were, how many were admitted, and how many were refused
// while fewer than fit had been admitted.
const [url, most, stores, tasks, interval, lasting] = process.argv.slice(1).map((it, at) => at ? Number(it) : it);
const Redis = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const clients = Array.from({ length: stores }, () => new Redis(url));
const limiters = clients.map((storeClient) => new RateLimiterRedis({
  storeClient, points: most, duration: 86400, inMemoryBlockOnConsumed: most,
}));
let asked = 0;
let admitted = 0;
let tooEarly = 0;

async function ask(limiter, begin, task) {
  for (let next = (interval * task) / tasks; next < lasting; next += interval) {
    const early = begin + next - performance.now();
    if (early > 0) await new Promise((go) => setTimeout(go, early));
    asked++;
    try {
      await limiter.consume('bob');
      admitted++;
    } catch (refused) {
      if (refused instanceof Error) throw refused;
      if (admitted < most) tooEarly++;
    }
  }
}

(async () => {
  const begin = performance.now();
  const all = limiters.flatMap((limiter) => Array.from({ length: tasks }, (_, task) => ask(limiter, begin, task)));
  await Promise.all(all);
  console.log(asked, admitted, tooEarly);
  clients.forEach((client) => client.disconnect());
})();
