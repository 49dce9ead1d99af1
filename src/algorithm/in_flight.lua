-- At most so many requests at once: the rule of InFlight over Redis. In memory it is a hold.
--
-- Each process has a lease: how many requests it has in flight, until when that counts unless it is
-- renewed. Messages may be lost, come late or in another order, so the process counts them. A
-- request that begins or ends changes the requests by one. A renewal says how many there are: it is
-- left out if a later change came before it, and leaves out the earlier changes that come after it.
-- Where Redis has lost a lease, it learns from the next message how many requests are sure, and
-- leaves out ends that are older than that message: what they end is not counted.
--
-- Given    now           microseconds
--          cost          1 for a request that begins, -1 for one that ends, else 0
--          max           how many may be in flight
--          held_at_most  how long a lease lasts, in microseconds
--          process       the number of the process
--          number        of this message, counted by the process
--          running       how many requests are in flight: in a renewal with those that are asked
--                        for, else those that are sure without this one; -1 if nothing is said
--          leases        the key of the leases, each of them whole numbers of 7 bytes: the process,
--                        the requests, the numbers of the first message, of the last change and of
--                        the last renewal, and when it ends
--          taken         what the last charge replied: it is not read
--          others ...    the leases, as in_flight_ask returned them
-- Returns  in_flight_ask whether the cost fits; how many are in flight; and the leases: those of
--                        others, how many they have, and until when; the parts of its own; and
--                        whether there is none
--          in_flight     true; when no lease lasts any more; and how many are in flight

local function in_flight_ask(now, cost, beside, max, held_at_most, process, number, running, leases)
  local stored, others, by_others, ends = call('GET', leases) or '', '', 0, now
  local own, first, changed, renewed, own_ends = 0, number, 0, 0, now
  if #stored % 42 ~= 0 then error('UNREADABLE leases') end
  for at = 1, #stored, 42 do
    local id, requests, its_first, last_change, last_renewal, lasts_until =
      unpack('<I7I7I7I7I7I7', stored, at)
    if lasts_until <= now then
      -- It is as good as lost.
    elseif id == process then
      own, first, changed, renewed, own_ends =
        requests, its_first, last_change, last_renewal, lasts_until
    else
      others, by_others = others .. string.sub(stored, at, at + 41), by_others + requests
      ends = math.max(ends, lasts_until)
    end
  end
  local sure = number > changed and math.max(own, running) or own
  -- A renewal that came first has counted it.
  local more = number > renewed and cost or 0
  return by_others + sure + more <= max or cost == 0, by_others + sure,
    others, by_others, ends, own, first, changed, renewed, own_ends, stored == ''
end

local function in_flight(now, cost, max, held_at_most, process, number, running, leases, taken,
  others, by_others, ends, own, first, changed, renewed, own_ends, is_new)
  if cost == 0 and running >= 0 then
    if number > changed and number > renewed then own, renewed = running, number end
    own_ends = now + held_at_most
  elseif cost ~= 0 then
    if number > renewed and (cost > 0 or number >= first) then
      -- A begin is counted beside those that are sure, an end leaves as many.
      if number > changed and cost > 0 then own = math.max(own, running) end
      own = math.max(own + cost, 0)
      if number > changed and cost < 0 then own = math.max(own, running) end
    end
    changed, own_ends = math.max(changed, number), math.max(own_ends, now + held_at_most)
  end
  if own_ends > now then
    others = others .. pack('<I7I7I7I7I7I7', process, own, first, changed, renewed, own_ends)
    ends = math.max(ends, own_ends)
  end
  if others ~= '' and is_new then
    call('SET', leases, others, 'PX', 60000)
    has_new_list = true
  elseif others ~= '' then
    call('SET', leases, others, 'KEEPTTL')
  end
  return true, ends, by_others + own
end
