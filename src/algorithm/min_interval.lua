-- At most one admission in an interval: the rule of MinInterval. `min_interval.rs` says the same in
-- Rust.
--
-- A cost has room if the last admission is at least an interval ago. Every cost but 0 counts as one
-- admission.
--
-- Parameters  interval        in microseconds
-- State       stamp           the microsecond of the last admission
--             was_admitted    1; 0 if that admission was given back, or there was none
-- Reply       the state
--- judge
if m.stamp > now + m.interval then
  -- The clock has stepped back.
  m.stamp, repaired = now, true
end
m.fits = m.stamp + m.interval <= now or m.was_admitted == 0 or cost == 0
--- charge
m.was_admitted = 1
if now > m.stamp then m.stamp = now end
--- refund
if cost > 0 then m.was_admitted = 0 end
--- expire
m.expires_at = m.stamp + m.was_admitted * m.interval
