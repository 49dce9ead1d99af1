-- A caller's clock is not the server's, which runs the expiry: then it is relative, and never short.
local at, origin, shortest = 'AT', 0, 0
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  at, origin, shortest = '', math.floor(now / 1000), 60000
end
