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
