-- The server's clock, or the caller's, which is the last of the numbers: then the expiry, which the server runs, is
-- relative.
local at, moves = 'AT', false
if #numbers == all_but_the_time then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = struct.unpack('<d', numbers, all_but_the_time + 1)
  at, moves = '', true
end
