-- The server's clock, or the caller's: then the expiry, which the server runs, is relative.
local at, moves = 'AT', false
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  at, moves = '', true
end
