-- What the charge was answered, and left: its instant, and the numbers of the states. It is taken back as of that instant,
-- so that nothing which was paid off since is given back with it.
local charge = string.sub(numbers, all_but_the_charge + 1)
local now = struct.unpack('<d', charge)
if cost < 0 then
  cost, relative = -1 - cost, true
end
