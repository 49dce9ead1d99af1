--- judge
if m.start > now + m.period then
  m.start = now
  if m.opens_at_first == 0 then m.start = now - now % m.period end
  mends = true
end
m.running, m.taken = m.start, m.used
if now >= m.start + m.period or (m.used == 0 and m.opens_at_first == 1) then
  m.running, m.taken = now, 0
  if m.start > now then m.running = m.start end
  if m.opens_at_first == 0 then m.running = m.running - m.running % m.period end
end
m.fits = m.taken + cost <= m.units or cost == 0
--- charge
m.start = m.running
m.used = m.taken + cost
--- refund
m.start, m.used = m.running, m.taken - cost
if m.used < 0 then m.used = 0 end
--- forget
m.over = m.start + m.period
