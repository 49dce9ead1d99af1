-- The server's clock; or the caller's, if the cost is counted down from -1: that is the last of the numbers, and the
-- expiry, which the server runs, is relative.
local now
if cost >= 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = struct.unpack('<d', numbers, all_but_the_time + 1)
  cost, relative, moves = -1 - cost, true, true
end
