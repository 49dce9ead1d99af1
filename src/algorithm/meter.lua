--- judge
-- Above 50 bits an id tells how long a tick is: see `Rate::id`.
m.seen = now
if m.own_id >= 2 ^ 50 then
  m.tick_micros = 10 ^ math.floor(m.own_id / 2 ^ 50)
  m.seen = math.floor(now / m.tick_micros)
end
if m.id ~= m.own_id then
  -- Numbers that were not written together are a stranger's.
  m.sum = function(...)
    local sum = 0
    for _, number in ipairs({ ... }) do sum = (sum * 31 + number % 4294967291) % 4294967291 end
    return sum
  end
  m.alone = function()
    local capacity, unit, paid = m.capacity_parts, m.parts_per_unit, m.parts_per_tick
    return struct.pack('<dddd', capacity, unit, paid, m.sum(m.own_id, capacity, unit, paid))
  end
  if not state then
    m.id, m.lanes, moves = m.own_id, m.alone(), true
  else
    -- Others were admitted: see lanes.rs.
    local lane = function(id, capacity, unit, paid, debt, at, ends)
      for _, number in ipairs({ id, capacity, unit, paid, debt, at, ends }) do
        if not (number >= 0 and number < 2 ^ 53 and number % 1 == 0) then error('UNREADABLE state') end
      end
      if id == 0 or unit == 0 or debt > capacity then error('UNREADABLE state') end
      local tick = 10 ^ math.floor(id / 2 ^ 50)
      return { id = id, capacity = capacity, unit = unit, paid = paid, debt = debt, at = at, ends = ends, tick = tick }
    end
    if m.id ~= 0 then
      local capacity, unit, paid, sum = struct.unpack('<dddd', state, m.lanes_at)
      if sum ~= m.sum(m.id, capacity, unit, paid) then error('UNREADABLE state') end
      m.main, m.rest_until = lane(m.id, capacity, unit, paid, m.debt, m.at, 0), 0
    else
      local n = { struct.unpack('<ddddddddddddd', state, m.lanes_at) }
      if n[13] ~= m.sum(m.debt, m.at, unpack(n, 1, 12)) then error('UNREADABLE state') end
      m.main, m.rest_until = lane(n[1], n[2], n[3], n[4], m.debt, m.at, 0), n[12]
      if not (n[12] >= 0 and n[12] < 2 ^ 53 and n[12] % 1 == 0) then error('UNREADABLE state') end
      if n[5] ~= 0 then m.other = lane(n[5], n[6], n[7], n[8], n[9], n[10], n[11]) end
    end
    m.own = m.main.id == m.own_id and m.main or m.other and m.other.id == m.own_id and m.other
    m.ends = function(lane)
      return (lane.at + (lane.paid > 0 and math.ceil(lane.debt / lane.paid) or 0)) * lane.tick
    end
    m.level = function(lane)
      local seen = math.max(math.floor(now / lane.tick), lane.at)
      return math.max(lane.debt + (lane.at - seen) * lane.paid, 0), seen
    end
    m.pack = function(main, other, rest_until)
      other = other or { id = 0, capacity = 0, unit = 0, paid = 0, debt = 0, at = 0, ends = 0 }
      local sum = m.sum(main.debt, main.at, main.id, main.capacity, main.unit, main.paid,
        other.id, other.capacity, other.unit, other.paid, other.debt, other.at, other.ends, rest_until)
      return struct.pack('<ddddddddddddd', main.id, main.capacity, main.unit, main.paid,
        other.id, other.capacity, other.unit, other.paid, other.debt, other.at, other.ends, rest_until, sum)
    end
    local tick = m.tick_micros or 1
    local stamp = m.own or m.main
    stamp = stamp.at * stamp.tick
    local span = m.parts_per_tick > 0 and math.ceil(m.capacity_parts / m.parts_per_tick) or 0
    if math.floor(stamp / tick) > m.seen + span then
      if m.rest_until > 0 then m.rest_until = math.max(m.rest_until - (stamp - now), 1) end
      for _, lane in ipairs({ m.main, m.other }) do
        local back = lane.at * lane.tick - now
        if back > 0 then
          lane.at, lane.ends = math.floor(now / lane.tick), math.max(lane.ends - back, 0)
        end
      end
      mends = true
      if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
    end
    if m.own then
      m.debt, m.at = m.own.debt, m.own.at
    elseif m.rest_until > 0 then
      local full = m.parts_per_tick > 0 and math.floor(m.capacity_parts / m.parts_per_tick) or 0
      m.debt, m.at = m.capacity_parts, math.max(math.ceil(m.rest_until / tick) - full, 0)
    else
      local divisor, rest = m.parts_per_unit, m.main.unit
      while rest > 0 do
        divisor, rest = rest, math.fmod(divisor, rest)
      end
      m.debt = math.ceil(m.main.debt * (m.parts_per_unit / divisor) / (m.main.unit / divisor))
      m.debt, m.at = math.min(m.debt, 2 ^ 53 - 1), math.floor(m.main.at * m.main.tick / tick)
    end
  end
elseif m.debt > m.capacity_parts then
  error('UNREADABLE state')
end
m.owed = m.debt + (m.at - m.seen) * m.parts_per_tick
if m.at > m.seen then
  m.owed = m.debt
  if not m.main and m.at > m.seen + math.ceil(m.capacity_parts / m.parts_per_tick) then
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
if m.main then
  local other, rest_until = m.other, m.rest_until
  if m.own ~= m.main then
    m.main.ends = m.ends(m.main)
    if not m.own and other and other.ends > now then
      local left = m.main
      if left.ends > other.ends then other, left = left, other end
      rest_until = math.max(rest_until, left.ends)
    else
      other = m.main
    end
  end
  if rest_until <= now then rest_until = 0 end
  if other and other.ends <= now then other = nil end
  if other then
    -- Others fill the bucket to its brim, and no further.
    local owed, seen = m.level(other)
    other.debt, other.at = math.min(owed + cost * other.unit, math.max(other.capacity, owed)), seen
  end
  m.main = { id = m.own_id, capacity = m.capacity_parts, unit = m.parts_per_unit, paid = m.parts_per_tick,
    debt = m.debt, at = m.at, tick = m.tick_micros or 1 }
  m.own, m.other, m.rest_until, moves = m.main, other, rest_until, true
  if other or rest_until > 0 then
    m.id, m.lanes = 0, m.pack(m.main, other, rest_until)
  else
    m.id, m.lanes = m.own_id, m.alone()
  end
end
--- refund
if m.main then
  local lane = m.own or m.main
  local owed, seen = m.level(lane)
  lane.debt, lane.at = math.max(owed - cost * lane.unit, 0), seen
  if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
else
  m.debt, m.at = m.owed - cost * m.parts_per_unit, m.seen
  if m.debt < 0 then m.debt = 0 end
end
--- withdraw
if (not m.main or m.own == m.main) and m.debt + (m.at - m.admitted_at) * m.parts_per_tick == m.debt_then then
  m.debt, m.at = m.owed - cost * m.parts_per_unit, m.seen
  if m.debt < 0 then m.debt = 0 end
  if m.main then m.main.debt, m.main.at = m.debt, m.at end
  if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
end
--- forget
-- What is owed for less than a tick may be lost in the sum.
m.over = m.at + m.debt / m.parts_per_tick + 1
if m.tick_micros then m.over = math.ceil(m.over - 1) * m.tick_micros end
if m.parts_per_tick == 0 then m.over = m.at * (m.tick_micros or 1) end
if m.main then
  m.debt, m.at = m.main.debt, m.main.at
  m.over = math.max(m.ends(m.main), m.other and m.other.ends or 0, m.rest_until)
end
