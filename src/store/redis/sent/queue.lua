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

local cost_1, capacity_1, unit_1, rate_1, tick_1 = unpack('<ddddd', ARGV[1], 17)
local left_tick_1, left_debt_1
if op == SETTLE then
  left_tick_1, left_debt_1 = unpack('<dd', ARGV[2])
end
local stored_1 = call('GET', KEYS[1])
local now_1, last_1, ahead_1, debt_1, speed_1, key_expires_at_1 = now, now, 0, 0, 0, 0
if stored_1 then
  if #stored_1 == 78 then return '\2' end
  if #stored_1 ~= 36 or string.byte(stored_1) ~= 1 then error('UNREADABLE state') end
  last_1, ahead_1, debt_1, speed_1, key_expires_at_1 = unpack('<I7I7I7I7I7', stored_1, 2)
  if math.max(last_1, ahead_1, debt_1, speed_1) >= 2 ^ 53 then error('UNREADABLE state') end
  now_1, ahead_1 = catch_up(KEYS[1], last_1, ahead_1, key_expires_at_1)
else stored_1 = '' end
if op == TAKE_BACK then now_1 = last_1 end
if op == TAKE_BACK and string.sub(stored_1, 1, #ARGV[2]) ~= ARGV[2] then return '' end

if op == SETTLE and (speed_1 ~= rate_1
  or debt_1 + (math.floor(last_1 / tick_1) - left_tick_1) * rate_1 ~= left_debt_1) then
  cost_1 = 0
end
local fits_1, ends_1
fits_1, ends_1, debt_1, speed_1 =
  bucket(last_1, now_1, cost_1, must, capacity_1, unit_1, rate_1, tick_1, debt_1, speed_1)
if not must and (op == LOOK or not fits_1) then
  return pack('<BI7I7I7', 0, (fits_1 and 1 or 0), now + ahead_1, #stored_1) .. stored_1
end
local value_1 = pack('<BI7I7I7I7', 1, now_1, ahead_1, debt_1, speed_1)
write(stored_1, value_1, '', now_1, ahead_1, ends_1, key_expires_at_1, KEYS[1])
return pack('<BI7I7I7', 1, (fits_1 and 1 or 0), now + ahead_1, #value_1) .. value_1
