// Decisions by `RateLimiterRedis`: each line of the input is how many, each line of the output how
// many were admitted.
const [url, , most, callers] = process.argv.slice(1);
const Redis = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const storeClient = new Redis(url);
const limiter = new RateLimiterRedis({ storeClient, points: Number(most), duration: 86400 });

async function decide(count) {
  let admitted = 0;
  for (let request = 0; request < count; request++) {
    try {
      await limiter.consume(`caller-${request % Number(callers)}`);
      admitted++;
    } catch (refused) {
      if (refused instanceof Error) throw refused;
    }
  }
  return admitted;
}

(async () => {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    console.log(await decide(Number(line)));
  }
  storeClient.disconnect();
})();
