# Decisions by `limits`: each line of the input is how many, each line of the output how many were
# admitted.
import sys

from limits import RateLimitItemPerDay, storage, strategies

url, strategy, most, callers = sys.argv[1:]
limiter = getattr(strategies, strategy)(storage.RedisStorage(url))
item = RateLimitItemPerDay(int(most))
for line in sys.stdin:
    admitted = 0
    for request in range(int(line)):
        admitted += limiter.hit(item, f"caller-{request % int(callers)}")
    print(admitted, flush=True)
