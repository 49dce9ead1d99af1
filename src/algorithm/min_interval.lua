--- judge
if m.stamp > now + m.interval then
  m.stamp = now
  mends = true
end
m.fits = cost == 0 or m.was_admitted == 0 or m.stamp + m.interval <= now
--- charge
m.was_admitted = 1
if now > m.stamp then m.stamp = now end
--- refund
if cost > 0 then m.was_admitted = 0 end
--- forget
m.over = m.stamp + m.was_admitted * m.interval
