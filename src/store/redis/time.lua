-- What time it is: `now`, in microseconds.
--
-- Mostly it is the server's: part `server`. A store with a clock of its own has scripts of their
-- own, which are given `now` with the other numbers: part `caller`. A charge is taken back as of
-- its own instant, so that nothing that was paid off since is given back with it: part `charge`.
--- server
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
--- caller
-- It is the caller's, and was given. Every write sets the expiry anew, which the server's clock
-- runs.
dirty = true
--- charge
-- It is that of the charge: the reply to it is the begin of the state as it left it.
local charge = ARGV[2]
local now = struct.unpack('<d', charge, 2)
