--- judge
if m.stamp > now + m.interval then
  m.stamp = now
  mends = true
end
m.fits = m.stamp + m.interval <= now or m.was_admitted == 0 or cost == 0
--- charge
m.was_admitted = 1
if now > m.stamp then m.stamp = now end
--- refund
if cost > 0 then m.was_admitted = 0 end
--- forget
m.over = m.stamp + m.was_admitted * m.interval
