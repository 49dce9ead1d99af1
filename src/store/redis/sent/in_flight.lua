-- Around the rules: reads each state, asks each member, and writes what all of them admit. The
-- lines that name members are repeated for each of them (`script.rs`).
--
-- KEYS     for each limit the key of its state, then the list of each member that has one
-- ARGV[1]  doubles: op; the caller's time in microseconds, or -1 if the server's counts; then of
--          each member its cost and its numbers; then of each how long it holds (0: never), and how
--          long a hold matters after its end
-- ARGV[2]  to SETTLE: of each member that holds, the generation and the units; of each queue, what
--          the admission left. To TAKE_BACK: the value that the charge replied
-- Value    of a state: a byte 1, then whole numbers of 7 bytes: last, ahead, the state of each
--          member, key_expires_at; while units are held, the tail: two generations of each member
-- Reply    a byte 0 if it is not charged, else 1, of a script that holds 3; numbers: a bit for each
--          member that has room, what members say of a list (not in a reply of 1), of each limit
--          its time and the bytes of its value; the values: as they are stored, or if it is charged
--          without key_expires_at. Only a byte 2, if a value has a tail and this script does not
--          hold: the one that holds is for it, with the same arguments
-- Error    UNREADABLE, if a key has a value that no script wrote
local DECIDE, LOOK, CHANGE, SETTLE, TAKE_BACK = 0, 1, 2, 3, 4
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local op, now = unpack('<dd', ARGV[1])
local must, is_callers, has_new_list, _ = op > LOOK, now >= 0, false, nil
local time = not is_callers and call('TIME')
if time then now = time[1] * 1000000 + time[2] end

-- The time of a state never goes back. If the server's does, no time passes for the state until the
-- server has caught up; if that would take longer than the key lives, the state goes on where it
-- was, ahead of the server.
local function catch_up(key, last, ahead, key_expires_at)
  local at = now + ahead
  if at >= last then return at, ahead end
  if last - at > key_expires_at - last then
    ahead = ahead + last - at
    call('SETRANGE', key, 1, pack('<I7I7', last, ahead))
  end
  return last, ahead
end

-- Writes a value, and its expiry if that is too early. The key lives a sixty-fourth and a second
-- longer than its state matters, so that few charges move the expiry.
local function write(stored, value, tail, at, ahead, ends, expiry, key, ...)
  if ends < expiry and not is_callers and not has_new_list and #tail + #value + 7 == #stored then
    call('SETRANGE', key, 0, tail == '' and value or value .. pack('<I7', expiry) .. tail)
  elseif stored ~= '' or ends > at then
    expiry = math.max(expiry, math.min(ends + math.ceil((ends - at) / 64) + 1e6, 2 ^ 53 - 1))
    -- Expiry goes by the server's clock: with a caller's it is a minute at least.
    local lasts = math.max(math.ceil((expiry - ahead - now) / 1000), is_callers and 60000 or 1)
    call('SET', key, value .. pack('<I7', expiry) .. tail, 'PX', lasts)
    for _, list in ipairs({ ... }) do call('PEXPIRE', list, lasts) end
  end
end

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
-- Returns  in_flight_ask whether the cost fits; and how many are in flight
--          in_flight     true; when no lease lasts any more; and how many are in flight

-- The leases of other processes, how many requests they have, and until when; then the own lease.
local function in_flight_leases(now, process, leases)
  local stored, others, taken, ends = call('GET', leases) or '', '', 0, now
  local own, first, changed, renewed, own_ends = 0, nil, 0, 0, now
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
      others, taken = others .. string.sub(stored, at, at + 41), taken + requests
      ends = math.max(ends, lasts_until)
    end
  end
  return others, taken, ends, own, first, changed, renewed, own_ends
end

local function in_flight_ask(now, cost, beside, max, held_at_most, process, number, running, leases)
  local _, taken, _, own, _, changed, renewed = in_flight_leases(now, process, leases)
  if number > changed then own = math.max(own, running) end
  -- A renewal that came first has counted it.
  local more = number > renewed and cost or 0
  return taken + own + more <= max or cost == 0, taken + own
end

local function in_flight(now, cost, max, held_at_most, process, number, running, leases)
  local others, taken, ends, own, first, changed, renewed, own_ends =
    in_flight_leases(now, process, leases)
  first = first or number
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
  if others ~= '' then
    call('SET', leases, others, 'PX', math.ceil((ends - now) / 1000) + 60000)
  end
  return true, ends, taken + own
end

local cost_1, max_1, held_at_most_1, process_1, number_1, running_1 = unpack('<dddddd', ARGV[1],
  17)
local stored_1 = call('GET', KEYS[1])
local now_1, last_1, ahead_1, taken_1, key_expires_at_1 = now, now, 0, 0, 0
if stored_1 then
  if #stored_1 == 71 then return '\2' end
  if #stored_1 ~= 29 or string.byte(stored_1) ~= 1 then error('UNREADABLE state') end
  last_1, ahead_1, taken_1, key_expires_at_1 = unpack('<I7I7I7I7', stored_1, 2)
  if math.max(last_1, ahead_1, taken_1) >= 2 ^ 53 then error('UNREADABLE state') end
  now_1, ahead_1 = catch_up(KEYS[1], last_1, ahead_1, key_expires_at_1)
else stored_1 = '' end
if op == TAKE_BACK then now_1 = last_1 end
if op == TAKE_BACK and string.sub(stored_1, 1, #ARGV[2]) ~= ARGV[2] then return '' end

local fits_1, taken_1 =
  in_flight_ask(now_1, cost_1, 0, max_1, held_at_most_1, process_1, number_1, running_1, KEYS[2],
    taken_1)
if not must and (op == LOOK or not fits_1) then
  return pack('<BI7I7I7I7', 0, (fits_1 and 1 or 0), taken_1, now + ahead_1, #stored_1) .. stored_1
end
local ends_1
_, ends_1, taken_1 =
  in_flight(now_1, cost_1, max_1, held_at_most_1, process_1, number_1, running_1, KEYS[2],
    taken_1)
local value_1 = pack('<BI7I7I7', 1, now_1, ahead_1, taken_1)
write(stored_1, value_1, '', now_1, ahead_1, ends_1, key_expires_at_1, KEYS[1], KEYS[2])
return pack('<BI7I7I7', 1, (fits_1 and 1 or 0), now + ahead_1, #value_1) .. value_1
