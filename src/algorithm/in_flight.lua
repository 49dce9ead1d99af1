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
--          stored        what is stored, with the leases, each of them whole numbers of 7 bytes: the
--                        process, the requests, the numbers of the first message, of the last
--                        change and of the last renewal, and when it ends
--          before        how many bytes stand before the leases
-- Returns  whether the cost fits; when no lease lasts any more; how many are in flight without the
--          cost; and if it fits, the leases and the state with it
local function in_flight(last, now, cost, must, max, held_at_most, process, number, running, taken,
  bytes, stored, before)
  local others, by_others, ends = '', 0, now
  local own, first, changed, renewed, own_ends = 0, number, 0, 0, now
  if bytes % 42 ~= 0 then error('UNREADABLE leases') end
  for at = before + 1, before + bytes, 42 do
    local id, requests, its_first, last_change, last_renewal, lasts_until =
      struct.unpack('<I7I7I7I7I7I7', stored, at)
    if lasts_until <= now then
      -- It is as good as lost.
    elseif id == process then
      own, first, changed, renewed, own_ends =
        requests, its_first, last_change, last_renewal, lasts_until
    else
      others, by_others = others .. stored:sub(at, at + 41), by_others + requests
      ends = math.max(ends, lasts_until)
    end
  end
  local sure = own
  if number > changed and running > own then sure = running end
  taken = by_others + sure
  -- A renewal that came first has counted it.
  local more = number > renewed and cost or 0
  if taken + more > max and cost > 0 and not must then return false, nil, taken end
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
    others = others .. struct.pack('<I7I7I7I7I7I7', process, own, first, changed, renewed, own_ends)
    if own_ends > ends then ends = own_ends end
  end
  return true, ends, taken, others, by_others + own, #others
end
