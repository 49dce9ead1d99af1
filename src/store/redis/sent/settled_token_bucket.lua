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

-- A bucket of debt: the rule of TokenBucket, LeakyBucket and Gcra. `debt_bucket.rs` says the same
-- in Rust.
--
-- Every cost adds to a debt, which time pays off at a steady rate. A cost fits if the debt with it
-- stays within the capacity. The debt is counted in parts of a unit, so that each tick pays a whole
-- number of them.
--
-- Given    last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        units; negative to give some back
--          must        whether the cost is charged even if it does not fit
--          capacity    the largest debt, in parts
--          unit        the parts of a cost of 1
--          rate        the parts that a tick pays off
--          tick        how long a tick is, in microseconds: the same for all that share a state
--          debt        in parts, as of `last`
--          speed       the rate at which it was counted
-- Returns  whether the cost fits; if so, when the state is as good as none, and the state

-- A debt that was counted at another rate: it takes as long as before to be paid off, rounded up.
local function bucket_converted(debt, speed, rate)
  if debt == 0 or speed == rate then return debt end
  local ticks = math.floor(debt / speed)
  return ticks * rate + math.ceil((debt - ticks * speed) * rate / speed)
end

local function bucket(last, now, cost, must, capacity, unit, rate, tick, debt, speed)
  -- A cost of 0 leaves the debt as it was counted.
  if cost == 0 and debt > 0 then rate = speed end
  local paid = (math.floor(now / tick) - math.floor(last / tick)) * speed
  debt = bucket_converted(math.max(debt - paid, 0), speed, rate)
  local owed = math.max(debt + cost * unit, 0)
  if owed > capacity and cost > 0 and not must then return false end
  -- A debit may owe more than the capacity. What is never paid off is not owed.
  owed = rate > 0 and math.min(owed, 2 ^ 53 - 1) or debt
  return true, owed > 0 and now + math.ceil(owed / rate) * tick or now, owed, rate
end

-- Units that are held until it is known what was spent, beside any rule that is additive.
-- `settled.rs` says the same in Rust.
--
-- A cost fits if the rule has room for it together with all that is held. What is held is kept as
-- two generations, of which the later one takes holds. When one has ended, what it still holds is
-- spent, as of its end. A limit that does not hold charges its cost at once, beside what others of
-- its name hold.
--
-- Given    rule        function(last, now, cost, must, <state>) of the rule
--          last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        units that are held, or charged
--          at_most     how long a generation lasts after its last hold, at least, and half of how
--                      long it lasts in all; 0 if the cost is not held, but charged
--          matters_for how long the state may need to recover from what a generation has left
--          named       in a settlement: the start of the generation that holds
--          taken       in a settlement: how many units it frees there
--          earlier_start, earlier_end, earlier_held, later_start, later_end, later_held
--                      of each generation, when it began, when it ends, and the units that it holds
--          ...         the state of the rule
-- Returns  whether the cost fits; if so, when the state is as good as none, the generations, and
--          the state of the rule

-- Spends what generations hold that have ended, in the order of their ends: the time of the state
-- then, what is still held, and the state.
local function held_spent(rule, last, now, e_end, e_held, l_end, l_held, ...)
  local earlier = e_held > 0 and e_end <= now and e_end or 2 ^ 54
  local later = l_held > 0 and l_end <= now and l_end or 2 ^ 54
  if earlier == 2 ^ 54 and later == 2 ^ 54 then return last, e_held, l_held, ... end
  local units, at = e_held, math.max(last, math.min(earlier, later))
  if later < earlier then
    units, l_held = l_held, 0
  else
    e_held = 0
  end
  return held_spent(rule, at, now, e_end, e_held, l_end, l_held,
    select(3, rule(last, at, units, true, ...)))
end

local function held_state(matters_for, e_start, e_end, e_held, l_start, l_end, l_held, _, ends, ...)
  if e_held > 0 then ends = math.max(ends, e_end) end
  if l_held > 0 then ends = math.max(ends, l_end) end
  if e_held + l_held > 0 then ends = ends + matters_for end
  return true, ends, e_start, e_end, e_held, l_start, l_end, l_held, ...
end

local function held_after(rule, now, cost, at_most, matters_for, named, taken,
  e_start, e_end, l_start, l_end, last, e_held, l_held, ...)
  if op == SETTLE and at_most > 0 then
    if named > 0 and named == e_start and e_held > 0 then
      e_held = math.max(e_held - taken, 0)
    elseif named > 0 and named == l_start and l_held > 0 then
      l_held = math.max(l_held - taken, 0)
    else
      -- The hold is gone: only what was spent beyond it is charged.
      cost = math.max(cost - taken, 0)
    end
  elseif op <= LOOK and cost > 0 then
    if not rule(last, now, cost + e_held + l_held, false, ...) then return false end
    if at_most > 0 then
      -- What nobody holds is as good as gone.
      if e_held + l_held == 0 then l_start, l_end = 0, 0 end
      local at = math.max(now, l_start)
      if at + at_most >= l_end then
        if e_held > 0 and l_held > 0 then
          -- Another limit of this name holds for longer: both generations still run.
          l_end = at + at_most
        else
          if l_held > 0 then e_start, e_end, e_held = l_start, l_end, l_held end
          -- No two generations begin at the same instant.
          l_start, l_end, l_held = math.max(at, l_start + 1), at + 2 * at_most, 0
        end
      end
      l_held, cost = l_held + cost, 0
    end
  end
  return held_state(matters_for, e_start, e_end, e_held, l_start, l_end, l_held,
    rule(last, now, cost, true, ...))
end

local function held(rule, last, now, cost, at_most, matters_for, named, taken,
  e_start, e_end, e_held, l_start, l_end, l_held, ...)
  return held_after(rule, now, cost, at_most, matters_for, named, taken, e_start, e_end,
    l_start, l_end, held_spent(rule, last, now, e_end, e_held, l_end, l_held, ...))
end

local cost_1, capacity_1, unit_1, rate_1, tick_1, at_most_1, matters_for_1 = unpack('<ddddddd',
  ARGV[1], 17)
local named_1, taken_1
if op == SETTLE then
  named_1, taken_1 = unpack('<dd', ARGV[2])
end
local stored_1 = call('GET', KEYS[1])
local now_1, last_1, ahead_1, debt_1, speed_1, key_expires_at_1, earlier_start_1, earlier_end_1,
  earlier_held_1, later_start_1, later_end_1, later_held_1 = now, now, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  0
if stored_1 then
  if #stored_1 == 78 then earlier_start_1, earlier_end_1, earlier_held_1, later_start_1,
    later_end_1, later_held_1 = unpack('<I7I7I7I7I7I7', stored_1, 37) end
  if #stored_1 ~= 36 and #stored_1 ~= 78
    or string.byte(stored_1) ~= 1 then error('UNREADABLE state') end
  last_1, ahead_1, debt_1, speed_1, key_expires_at_1 = unpack('<I7I7I7I7I7', stored_1, 2)
  if math.max(last_1, ahead_1, debt_1, speed_1, earlier_start_1, earlier_end_1, earlier_held_1,
    later_start_1, later_end_1, later_held_1) >= 2 ^ 53 then error('UNREADABLE state') end
  now_1, ahead_1 = catch_up(KEYS[1], last_1, ahead_1, key_expires_at_1)
else stored_1 = '' end
if op == TAKE_BACK then now_1 = last_1 end
if op == TAKE_BACK and string.sub(stored_1, 1, #ARGV[2]) ~= ARGV[2] then return '' end
earlier_held_1 = math.min(bucket_converted(earlier_held_1, speed_1, rate_1), 2 ^ 53 - 1)
later_held_1 = math.min(bucket_converted(later_held_1, speed_1, rate_1), 2 ^ 53 - 1)
taken_1 = (taken_1 or 0) * unit_1
cost_1, unit_1 = cost_1 * unit_1, 1
local function rule_1(last, now, cost, must, ...)
  return bucket(last, now, math.max(cost, 1), must, capacity_1, math.min(cost, 1), rate_1,
    tick_1, ...)
end

local fits_1, ends_1
fits_1, ends_1, earlier_start_1, earlier_end_1, earlier_held_1, later_start_1, later_end_1,
  later_held_1, debt_1, speed_1 =
  held(rule_1, last_1, now_1, cost_1, at_most_1, matters_for_1, named_1, taken_1,
    earlier_start_1, earlier_end_1, earlier_held_1, later_start_1, later_end_1, later_held_1,
    debt_1, speed_1)
if not must and (op == LOOK or not fits_1) then
  return pack('<BI7I7I7', 0, (fits_1 and 1 or 0), now + ahead_1, #stored_1) .. stored_1
end
local value_1 = pack('<BI7I7I7I7', 1, now_1, ahead_1, debt_1, speed_1)
local tail_1 = (earlier_held_1 + later_held_1 > 0 and pack('<I7I7I7I7I7I7', earlier_start_1,
  earlier_end_1, earlier_held_1, later_start_1, later_end_1, later_held_1) or '')
write(stored_1, value_1, tail_1, now_1, ahead_1, ends_1, key_expires_at_1, KEYS[1])
return pack('<BI7I7I7', 3, (fits_1 and 1 or 0), now + ahead_1,
  #value_1 + #tail_1) .. value_1 .. tail_1
