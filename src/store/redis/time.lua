-- What time it is: `now`, in microseconds.
--
-- Part `server`, the usual one: the server's time. Part `caller`: the time of a store that has a
-- clock of its own; it is given with the other numbers. Part `charge`: the time of a charge that is
-- taken back, so that nothing that was paid off since is given back with it.
--
-- Given  call     runs a command of the server, in part `server`
--        now      was read with the other numbers, in part `caller`
--        ARGV[2]  the reply to the charge, in part `charge`
--- server
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
--- caller
-- It was given by the caller. Every write sets the expiry anew, which goes by the server's clock.
dirty = true
--- charge
-- It is that of the charge, whose reply is how the value that it wrote begins.
local charge = ARGV[2]
local now = struct.unpack('<d', charge, 2)
