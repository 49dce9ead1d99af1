-- Two windows, the previous one weighted by how much of it the last period still covers: the rule
-- of SlidingWindow. `sliding_window.rs` says the same in Rust.
--
-- A cost fits if the units of the running window, and of those of the window before it the part
-- that a period back from now still covers, stay within the quota with it.
--
-- Given    last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        units; negative to give some back
--          must        whether the cost is charged even if it does not fit
--          units       the quota of a period
--          period      in microseconds: the same for all that share a state
--          tick        how long a tick is: parts of a period are counted in ticks
--          previous    the units of the window before the one of `last`
--          current     the units of that one
-- Returns  whether the cost fits; if so, when the state is as good as none, and the state
local function sliding_window(last, now, cost, must, units, period, tick, previous, current)
  local start = now - now % period
  if last < start then
    previous, current = last + period >= start and current or 0, 0
  end
  local ticks = period / tick
  local covered = ticks - math.floor((now - start) / tick)
  if previous * covered > (units - current - cost) * ticks and cost > 0 and not must then
    return false
  end
  -- Units are given back to the running window first, then to the one before it.
  previous = math.max(previous + math.min(current + cost, 0), 0)
  current = math.min(math.max(current + cost, 0), 2 ^ 53 - 2 ^ 32)
  local ends = now
  if current > 0 then ends = start + 2 * period elseif previous > 0 then ends = start + period end
  return true, ends, previous, current
end
