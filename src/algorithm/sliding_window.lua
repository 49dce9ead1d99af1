--- judge
m.at = now
if m.stamp > now + 2 * m.period then
  -- Now is elsewhere in its window: the whole estimate becomes the count of the running one.
  local start = m.stamp - m.stamp % m.period
  local covered = m.ticks - math.floor((m.stamp - start) / m.tick_micros)
  m.current = m.current + math.ceil(m.previous * covered / m.ticks)
  m.stamp, m.previous = now, 0
  mends = true
end
if m.stamp > now then m.at = m.stamp end
m.start = m.at - m.at % m.period
m.weighs, m.counts = m.previous, m.current
if m.stamp < m.start then
  m.weighs, m.counts = m.current, 0
  if m.stamp + m.period < m.start then m.weighs = 0 end
end
m.covered = m.ticks - math.floor((m.at - m.start) / m.tick_micros)
m.fits = m.weighs * m.covered <= (m.units - m.counts - cost) * m.ticks or cost == 0
--- charge
m.stamp = m.at
m.previous = m.weighs
m.current = m.counts + cost
--- refund
m.previous, m.current = m.weighs, m.counts - cost
m.stamp = m.at
if m.current < 0 then
  m.previous = m.previous + m.current
  m.current = 0
end
if m.previous < 0 then m.previous = 0 end
--- forget
m.over = m.stamp - m.stamp % m.period + m.period
if m.current > 0 then m.over = m.over + m.period end
