-- At most so many requests at once: the rule of InFlight over Redis. In memory it is a hold.
--
-- Each process has a lease: how many requests it has in flight, until when that counts unless it is
-- renewed. Messages may be lost, come late or in another order, so the process counts them. A
-- request that begins or ends changes the requests by one. A renewal says how many there are: it is
-- left out if a later change came before it, and leaves out the earlier changes that come after it.
-- Where Redis has lost a lease, it learns from the next message how many requests are sure, and
-- leaves out ends that are older than that message: what they end is not counted.
--
-- Given    last, now     microseconds: when the state was written, and now
--          cost          1 for a request that begins, -1 for one that ends, else 0
--          must          whether the cost is charged even if it does not fit
--          max           how many may be in flight
--          held_at_most  how long a lease lasts, in microseconds
--          process       the number of the process
--          number        of this message, counted by the process
--          running       how many requests are in flight: in a renewal with those that are asked
--                        for, else those that are sure without this one; -1 if nothing is said
--          taken         what the last charge replied: it is not read
--          bytes         of the leases
--          stored        what is stored, with the leases, each of them whole numbers of 7 bytes:
--                        the process, the requests, when it ends, and the numbers of the first
--                        message, of the last change and of the last renewal
--          before        how many bytes stand before the leases
-- Returns  whether the cost fits; when no lease lasts any more; how many are in flight without the
--          cost; and if it fits, the leases and the state with it
local function in_flight(last, now, cost, must, max, held_at_most, process, number, running, taken,
  bytes, stored, before)
  local leases, by_others, ends, from = '', 0, now, before + 1
  local own, own_ends, first, changed, renewed = 0, now, number, 0, 0
  if bytes % 42 ~= 0 then error('UNREADABLE leases') end
  for at = from, before + bytes, 42 do
    local id, requests, lasts_until = struct.unpack('<I7I7I7', stored, at)
    if id ~= process and lasts_until > now then
      by_others = by_others + requests
      if lasts_until > ends then ends = lasts_until end
    else
      -- Its own is written anew, one that has ended is as good as lost.
      if at > from then leases = leases .. stored:sub(from, at - 1) end
      from = at + 42
      if lasts_until > now then
        own, own_ends = requests, lasts_until
        first, changed, renewed = struct.unpack('<I7I7I7', stored, at + 21)
      end
    end
  end
  if from <= before + bytes then leases = leases .. stored:sub(from, before + bytes) end
  local sure = own
  if number > changed and running > own then sure = running end
  local in_use = by_others + sure
  -- A renewal that came first has counted it.
  local more = number > renewed and cost or 0
  if in_use + more > max and cost > 0 and not must then return false, nil, in_use end
  if cost == 0 and running >= 0 then
    if number > changed and number > renewed then own, renewed = running, number end
    own_ends = now + held_at_most
  elseif cost ~= 0 then
    if number > renewed and cost > 0 then
      -- A begin is counted beside those that are sure.
      own = sure + cost
    elseif number > renewed and number >= first then
      -- An end leaves as many.
      own = math.max(own + cost, number > changed and running or 0, 0)
    end
    if number > changed then changed = number end
    if now + held_at_most > own_ends then own_ends = now + held_at_most end
  end
  if own_ends > now then
    leases = leases .. struct.pack('<I7I7I7I7I7I7', process, own, own_ends, first, changed, renewed)
    if own_ends > ends then ends = own_ends end
  end
  return true, ends, in_use, leases, by_others + own, #leases
end
