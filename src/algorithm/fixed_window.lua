-- So many units in each window: the rule of FixedWindow. `fixed_window.rs` says the same in Rust.
--
-- A cost fits if the units of the running window stay within the quota with it. Windows follow one
-- another without a gap from the Unix epoch on, or each opens at the first admission after the last
-- one.
--
-- Given    last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        units; negative to give some back
--          must        whether the cost is charged even if it does not fit
--          units       the quota of a window
--          period      of a window, in microseconds: the same for all that share a state
--          opens_at_first   1 if windows open at the first admission, else 0; likewise
--          start       when the window of the last charge began
--          used        the units of that window
-- Returns  whether the cost fits; if so, when the state is as good as none, and the state
local function fixed_window(last, now, cost, must, units, period, opens_at_first, start, used)
  if used == 0 or start + period <= now then
    start, used = opens_at_first == 1 and now or now - now % period, 0
  end
  if used + cost > units and cost > 0 and not must then return false end
  used = math.min(math.max(used + cost, 0), 2 ^ 53 - 2 ^ 32)
  return true, used > 0 and start + period or now, start, used
end
