-- At most one admission in an interval: the rule of MinInterval. `min_interval.rs` says the same in
-- Rust.
--
-- Given    last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        every one but 0 is one admission; negative to give it back
--          must        whether the cost is charged even if it does not fit
--          interval    in microseconds
--          free_at     the instant from which on the next admission fits
-- Returns  whether the cost fits; if so, when the state is as good as none, and the state
local function min_interval(last, now, cost, must, interval, free_at)
  if cost > 0 then
    if free_at > now and not must then return false end
    free_at = math.max(free_at, now + interval)
  elseif cost < 0 then
    free_at = 0
  end
  return true, free_at, free_at
end
