--- judge
-- The scale: 3 bits for the tick, and 19 for how many parts a unit has. See scale.rs.
m.seen = now
if m.own_scale >= 524288 then
  m.tick_micros = 10 ^ math.floor(m.own_scale / 524288)
  m.seen = math.floor(now / m.tick_micros)
end
if m.scale ~= m.own_scale then
  -- Kept under other numbers, or never.
  if not (m.scale >= 0 and m.scale < 2 ^ 22 and m.scale % 1 == 0) then error('UNREADABLE state') end
  if m.debt > 0 then
    local bits, parts = m.scale % 262144, nil
    if m.scale % 524288 >= 262144 then
      parts = 2 ^ (bits % 64) * 3 ^ (math.floor(bits / 64) % 16) * 5 ^ (math.floor(bits / 1024) % 32)
      parts = parts * 7 ^ (math.floor(bits / 32768) % 4) * 73 ^ math.floor(bits / 131072)
    else
      parts = math.floor(2 ^ math.floor(bits / 4096) * (1 + bits % 4096 / 4096))
    end
    local divisor, rest = m.parts_per_unit, parts
    while rest > 0 do
      divisor, rest = rest, math.fmod(divisor, rest)
    end
    m.debt = math.min(math.ceil(m.debt * (m.parts_per_unit / divisor) / (parts / divisor)), 2 ^ 53 - 1)
  end
  m.at = math.floor(m.at * 10 ^ math.floor(m.scale / 524288) / (m.tick_micros or 1))
  m.scale, moves = m.own_scale, true
end
m.owed = m.debt + (m.at - m.seen) * m.parts_per_tick
if m.at > m.seen then
  m.owed = m.debt
  if m.at > m.seen + math.ceil(m.capacity_parts / m.parts_per_tick) then
    m.at, mends = m.seen, true
  end
  m.seen = m.at
elseif m.owed < 0 then
  m.owed = 0
end
m.after = m.owed + cost * m.parts_per_unit
m.fits = m.after <= m.capacity_parts or cost == 0
--- charge
m.debt = m.after
m.at = m.seen
--- refund
m.debt, m.at = m.owed - cost * m.parts_per_unit, m.seen
if m.debt < 0 then m.debt = 0 end
--- withdraw
if m.debt + (m.at - m.admitted_at) * m.parts_per_tick == m.debt_then then
  m.debt, m.at = m.owed - cost * m.parts_per_unit, m.seen
  if m.debt < 0 then m.debt = 0 end
end
--- forget
-- What is owed for less than a tick may be lost in the sum.
m.over = m.at + m.debt / m.parts_per_tick + 1
if m.tick_micros then m.over = math.ceil(m.over - 1) * m.tick_micros end
if m.parts_per_tick == 0 then m.over = m.at * (m.tick_micros or 1) end
