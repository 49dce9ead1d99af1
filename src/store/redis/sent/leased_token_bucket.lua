local op, now, cost_1, capacity_1, unit_1, rate_1, tick_1, at_most_1,
  retention_1 = struct.unpack('<ddddddddd', ARGV[1])
-- Around the rules: reads each state, asks each member, and writes what all of them admit. The
-- lines that name members are repeated for each of them (`script.rs`); the first one reads the
-- arguments.
--
-- This says what all kinds of scripts do. One plain limit has ops 0, 1, 2 and 4 (a queue 3, too),
-- and never replies a byte 3: lists, holds and several decisions need the rest. A script reads no
-- more of ARGV[1] than its first line names.
--
-- KEYS     for each limit the key of its state, then the list of each member that has one
-- ARGV[1]  doubles: op (0 charges what all members admit, 1 looks, 2 charges or gives back whatever
--          they say, 3 settles what an admission holds or gives back its turn in a queue, 4 takes a
--          charge back as of its own instant, if nothing was written since); the caller's time in
--          microseconds, or -1 if the server's counts; then of each member its cost, its numbers,
--          if it counts requests in flight what its process says of them, and what op 3 settles
--          (for other ops 0): if it holds, the generation and the units, if it is a queue, what
--          the admission left; then of each how long it holds (0: never), and how long a hold
--          matters after its end
-- ARGV[2]  of op 4: the value that the charge replied; of several decisions: for each its cost of
--          every member, 4 bytes; those of ARGV[1] do not count then; of a call that leases: for
--          each step its op, its cost, the units that a settlement frees, how long units are held,
--          and of each member the generation that a settlement frees from. The op of the last one
--          may be 5, a lease: unless a decision was refused, it holds what is asked for, but at
--          most half of the room, and no more than may be held in all, which stands for the units.
--          If it holds any, the reply before its own says how many, and how many parts a unit of
--          each member has
-- Value    of a state: a byte 1, then whole numbers of 7 bytes: last, ahead, key_expires_at, the
--          state of each member; while units are held, the tail: two generations of each member;
--          of each member in flight its leases, which no reply has. Or a byte 5 or 6 and an
--          instant: until then a cost is refused or let through, and nothing is charged
-- Reply    by its first byte; of several decisions one for each, as if they had come one by one:
--          1  charged; the values as they are written, and nothing else
--          0  not charged; numbers: a bit for each member that has room, what members say of a
--             list, of each limit its time and the bytes of its value; then the values as they are
--             stored
--          3  charged, of a script that holds, where the values do not say all: there is a shadow,
--             something is held beside a list or another limit, or the server's clock is behind a
--             state's time; then as 0
--          4  the same, of a script that does not hold; then as 0, but nothing of a list
--          5  a cost is refused, 6 it is let through, whatever the limit says: until when, and the
--             time. It is the one reply of several decisions, and of several limits.
--          2  a value has a tail, and this script does not hold: ask the one that does, by the same
--             arguments
--          Nothing: op 4 where something was written since.
-- Error    UNREADABLE, if a key has a value of a type, length or form that no state has
--
-- The time of a state never goes back. If a clock does, no time passes for the state until it has
-- caught up. If that is longer than from `last` to `key_expires_at`, and the clock is the server's,
-- the state goes on where it was, and `ahead` says how far that is ahead of the server. Looks and
-- refusals write only this, and what a list has held in generations that have ended.
--
-- A key lives a sixty-fourth and a second longer than its state matters, so that few charges move
-- its expiry, which goes by the server's clock: with a caller's it is a minute at least.
local LOOK, SETTLE, TAKE_BACK = 1, 3, 4
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local servers_time = now < 0 and call('TIME')
if servers_time then now = servers_time[1] * 1000000 + servers_time[2] end
local must, min_ttl_ms, has_new_list, mark, overridden_until, _ =
  op > LOOK, servers_time and 1 or 60000, false

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
local function bucket(last, now, cost, must, capacity, unit, rate, tick, debt, speed)
  -- A cost of 0 leaves the debt as it was counted.
  if cost == 0 and debt > 0 then rate = speed end
  debt = debt - (now - now % tick - (last - last % tick)) / tick * speed
  if debt < 0 then debt = 0 end
  if speed ~= rate and debt > 0 then
    -- Counted at another rate: it takes as long as before to be paid off, rounded up.
    if speed == 0 then error('UNREADABLE state') end
    local ticks = math.floor(debt / speed)
    debt = ticks * rate + math.ceil((debt - ticks * speed) * rate / speed)
  end
  local owed = debt + cost * unit
  if owed > capacity and cost > 0 and not must then return false end
  -- What is never paid off is not owed.
  if rate == 0 then return true, now, debt, rate end
  -- A debit may owe more than the capacity.
  if owed >= 2 ^ 53 then owed = 2 ^ 53 - 1 elseif owed < 0 then owed = 0 end
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
-- Given    must, settles   whether it is charged whatever the rule says; whether it is a settlement
--          now         microseconds
--          cost        units that are held, spent or charged
--          at_most     how long a generation lasts after its last hold, at least, and half of how
--                      long it lasts in all; 0 if the cost is not held, but charged
--          named       in a settlement: the start of the generation that holds
--          taken       in a settlement: how many units it frees there
--          start, end, held of the earlier generation and of the later one: when it began, when it
--                      ends, and the units that it holds
-- Returns  the units that are charged, and the generations
local function held(must, settles, now, cost, at_most, named, taken, e_start, e_end, e_held,
  l_start, l_end, l_held)
  if at_most == 0 or cost == 0 and not must then
    -- Nothing is held.
  elseif settles then
    if named > 0 and named == e_start and e_held > 0 then
      e_held = math.max(e_held - taken, 0)
    elseif named > 0 and named == l_start and l_held > 0 then
      l_held = math.max(l_held - taken, 0)
    else
      -- The hold is gone: only what was spent beyond it is charged.
      cost = math.max(cost - taken, 0)
    end
  elseif not must then
    -- What nobody holds is as good as gone.
    if e_held + l_held == 0 then l_start, l_end = 0, 0 end
    local at = now > l_start and now or l_start
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
  return cost, e_start, e_end, e_held, l_start, l_end, l_held
end

-- Of generations that have ended the first: what it held, its end but no earlier than the state,
-- and what both hold then.
local function held_ended(last, now, e_end, e_held, l_end, l_held)
  if l_held > 0 and l_end <= now and (e_held == 0 or l_end < e_end) then
    return l_held, math.max(last, l_end), e_held, 0
  end
  return e_held, math.max(last, e_end), 0, l_held
end

local stored_1 = call('GET', KEYS[1])
if stored_1 and #stored_1 < 36 then
  if #stored_1 ~= 8 then error('UNREADABLE state') end
  mark, overridden_until = unpack('<BI7', stored_1)
  if mark ~= 5 and mark ~= 6 or overridden_until >= 2 ^ 53 then error('UNREADABLE state') end
  if now < overridden_until then return stored_1 .. pack('<I7', now) end
  stored_1 = nil
end
local now_1, last_1, ahead_1, key_expires_at_1, debt_1, speed_1, earlier_start_1, earlier_end_1,
  earlier_held_1, later_start_1, later_end_1, later_held_1 = now, now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
if stored_1 then
  mark, last_1, ahead_1, key_expires_at_1, debt_1, speed_1 = unpack('<BI7I7I7I7I7', stored_1)
  if mark ~= 1 or #stored_1 ~= 36 and #stored_1 ~= 78 or last_1 >= 2 ^ 53 or ahead_1 >= 2 ^ 53
    or key_expires_at_1 >= 2 ^ 53 or debt_1 >= 2 ^ 53
    or speed_1 >= 2 ^ 53 then error('UNREADABLE state') end
  if #stored_1 == 78 then
    earlier_start_1, earlier_end_1, earlier_held_1, later_start_1, later_end_1,
      later_held_1 = unpack('<I7I7I7I7I7I7', stored_1, 37)
    if earlier_start_1 >= 2 ^ 53 or earlier_end_1 >= 2 ^ 53 or earlier_held_1 >= 2 ^ 53
      or later_start_1 >= 2 ^ 53 or later_end_1 >= 2 ^ 53
      or later_held_1 >= 2 ^ 53 then error('UNREADABLE state') end
  end
  now_1 = now + ahead_1
  if servers_time and now_1 < last_1 and last_1 - now_1 > key_expires_at_1 - last_1 then
    ahead_1 = ahead_1 + last_1 - now_1
    call('SET', KEYS[1], pack('<BI7I7', 1, last_1, ahead_1) .. stored_1:sub(16), 'KEEPTTL')
  end
  if now_1 < last_1 or op == TAKE_BACK then now_1 = last_1 end
else stored_1 = '' end

local replies = {}
local until_1, value_1
local LEASE, all_fit, named_1, taken_1 = 5, true
for at = 1, #ARGV[2], 26 do
  local unit_1 = unit_1
  local cost, units, held_for
  op, cost, units, held_for, named_1 = unpack('<BI4I7I7I7', ARGV[2], at)
  must = op == SETTLE
  if op == LEASE then
    if not all_fit then break end
    local held_1 = (earlier_held_1 + later_held_1) / unit_1
    cost = math.min(cost, math.floor(units - held_1))
    while cost > 0 and not bucket(last_1, now_1, 2 * cost + held_1, false, capacity_1, unit_1,
      rate_1, tick_1, debt_1, speed_1) do cost = math.floor(cost / 2) end
    if cost <= 0 then break end
    replies[#replies + 1], op = pack('<I4I7', cost, unit_1), 0
  end
  cost_1 = cost
  taken_1 = units
  at_most_1 = held_for
  local before = {debt_1, speed_1, earlier_start_1, earlier_end_1, earlier_held_1, later_start_1,
    later_end_1, later_held_1}
  if speed_1 ~= rate_1 then
    _, _, earlier_held_1 = bucket(now_1, now_1, 1, true, 0, 0, rate_1, tick_1, earlier_held_1,
      speed_1)
    _, _, later_held_1 = bucket(now_1, now_1, 1, true, 0, 0, rate_1, tick_1, later_held_1, speed_1)
  end
  taken_1 = taken_1 * unit_1
  cost_1, unit_1 = cost_1 * unit_1, 1
  local as_of_1 = last_1
  while (earlier_held_1 > 0 and earlier_end_1 <= now_1)
    or (later_held_1 > 0 and later_end_1 <= now_1) do
    local units, at
    units, at, earlier_held_1, later_held_1 =
      held_ended(as_of_1, now_1, earlier_end_1, earlier_held_1, later_end_1, later_held_1)
    _, _, debt_1, speed_1 =
      bucket(as_of_1, at, units, true, capacity_1, unit_1, rate_1, tick_1, debt_1, speed_1)
    as_of_1 = at
  end
  local fits_1, ends_1 = true, nil
  if op <= LOOK and cost_1 > 0 then
    fits_1 =
      bucket(as_of_1, now_1, cost_1 + earlier_held_1 + later_held_1, false, capacity_1, unit_1,
        rate_1, tick_1, debt_1, speed_1)
  end
  if fits_1 then
    cost_1, earlier_start_1, earlier_end_1, earlier_held_1, later_start_1, later_end_1,
      later_held_1 =
      held(must, op == SETTLE, now_1, cost_1, at_most_1, named_1, taken_1, earlier_start_1,
        earlier_end_1, earlier_held_1, later_start_1, later_end_1, later_held_1)
    if cost_1 == 0 then cost_1, unit_1 = 1, 0 end
    _, ends_1, debt_1, speed_1 =
      bucket(as_of_1, now_1, cost_1, true, capacity_1, unit_1, rate_1, tick_1, debt_1, speed_1)
    if earlier_held_1 > 0 and earlier_end_1 > ends_1 then ends_1 = earlier_end_1 end
    if later_held_1 > 0 and later_end_1 > ends_1 then ends_1 = later_end_1 end
    if earlier_held_1 + later_held_1 > 0 then ends_1 = ends_1 + retention_1 end
  end
  if not must and not fits_1 then
    replies[#replies + 1] = pack('<BI7I7I7', 0, (fits_1 and 1 or 0), now + ahead_1,
      #stored_1) .. stored_1
    debt_1, speed_1, earlier_start_1, earlier_end_1, earlier_held_1, later_start_1, later_end_1,
      later_held_1 = before[1], before[2], before[3], before[4], before[5], before[6], before[7],
      before[8]
    all_fit = false
  else
    until_1, value_1 = ends_1,
      earlier_held_1 + later_held_1 > 0 and pack('<BI7I7I7I7I7I7I7I7I7I7I7', 1, now_1, ahead_1,
      key_expires_at_1, debt_1, speed_1, earlier_start_1, earlier_end_1, earlier_held_1,
      later_start_1, later_end_1, later_held_1) or pack('<BI7I7I7I7I7', 1, now_1, ahead_1,
      key_expires_at_1, debt_1, speed_1)
    stored_1, last_1 = value_1, now_1
    replies[#replies + 1] = now_1 > now + ahead_1 and pack('<BI7I7I7', 3, (fits_1 and 1 or 0),
      now + ahead_1, #value_1) .. value_1 or value_1
  end
end
if not value_1 then return replies end
local ttl_ms_1
if until_1 >= key_expires_at_1 or not servers_time or has_new_list then
  local expiry = until_1 + math.ceil((until_1 - now_1) / 64) + 1e6
  expiry = math.min(expiry, 2 ^ 53 - 1)
  key_expires_at_1 = math.max(key_expires_at_1, expiry)
  ttl_ms_1 = math.max(math.ceil((key_expires_at_1 - ahead_1 - now) / 1000), min_ttl_ms)
end
value_1 = earlier_held_1 + later_held_1 > 0 and pack('<BI7I7I7I7I7I7I7I7I7I7I7', 1, now_1, ahead_1,
  key_expires_at_1, debt_1, speed_1, earlier_start_1, earlier_end_1, earlier_held_1, later_start_1,
  later_end_1, later_held_1) or pack('<BI7I7I7I7I7', 1, now_1, ahead_1, key_expires_at_1, debt_1,
  speed_1)
if ttl_ms_1 then
  call('SET', KEYS[1], value_1, 'PX', ttl_ms_1)
else
  call('SET', KEYS[1], value_1, 'KEEPTTL')
end
return replies
