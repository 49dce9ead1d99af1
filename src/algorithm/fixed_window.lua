--- judge
-- An id is twice the period, and one more for a window that opens at the first request.
m.opens_at_first = m.own_id % 2
m.period = (m.own_id - m.opens_at_first) / 2
if m.id ~= m.own_id then
  if not state then
    m.id, m.lanes, moves = m.own_id, '', true
  else
    -- Others were admitted: see lanes.rs.
    local lane = function(id, start, used, ends)
      for _, number in ipairs({ id, start, used, ends }) do
        if not (number >= 0 and number < 2 ^ 53 and number % 1 == 0) then error('UNREADABLE state') end
      end
      if id < 2 then error('UNREADABLE state') end
      return { id = id, start = start, used = used, ends = ends, at_first = id % 2, period = math.floor(id / 2) }
    end
    -- Numbers that were not written together are a stranger's.
    m.sum = function(...)
      local sum = 0
      for _, number in ipairs({ ... }) do sum = (sum * 31 + number % 4294967291) % 4294967291 end
      return sum
    end
    m.rest_until = 0
    if m.id ~= 0 then
      m.main = lane(m.id, m.start, m.used, 0)
    else
      local main, other, start, used, ends, rest_until, sum = struct.unpack('<ddddddd', state, m.lanes_at)
      if sum ~= m.sum(main, m.start, m.used, other, start, used, ends, rest_until) then error('UNREADABLE state') end
      if not (rest_until >= 0 and rest_until < 2 ^ 53 and rest_until % 1 == 0) then error('UNREADABLE state') end
      m.main, m.rest_until = lane(main, m.start, m.used, 0), rest_until
      if other ~= 0 then m.other = lane(other, start, used, ends) end
    end
    m.own = m.main.id == m.own_id and m.main or m.other and m.other.id == m.own_id and m.other
    m.pack = function(main, other, rest_until)
      other = other or { id = 0, start = 0, used = 0, ends = 0 }
      return struct.pack('<ddddddd', main.id, other.id, other.start, other.used, other.ends, rest_until,
        m.sum(main.id, main.start, main.used, other.id, other.start, other.used, other.ends, rest_until))
    end
    -- The window that is running for a lane.
    m.now_of = function(lane)
      if now < lane.start + lane.period and (lane.used > 0 or lane.at_first == 0) then return lane.start, lane.used end
      local start = math.max(now, lane.start)
      return lane.at_first == 1 and start or start - start % lane.period, 0
    end
    m.ends = function(lane)
      return lane.used > 0 and lane.start + lane.period * (1 + lane.at_first) or lane.start
    end
    local stamp = (m.own or m.main).start
    if stamp > now + m.period then
      if m.rest_until > 0 then m.rest_until = math.max(m.rest_until - (stamp - now), 1) end
      for _, lane in ipairs({ m.main, m.other }) do
        if lane.start > now then
          lane.ends = math.max(lane.ends - (lane.start - now), 0)
          lane.start = now
        end
      end
      mends = true
      if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
    end
    if m.own then
      m.start, m.used = m.own.start, m.own.used
    elseif m.rest_until > 0 then
      m.used = m.units
      m.start = m.opens_at_first == 1 and m.rest_until - 2 * m.period
        or (math.ceil(m.rest_until / m.period) - 1) * m.period
      if m.start < 0 then m.start = 0 end
    else
      m.start, m.used = m.main.start, m.main.used
    end
  end
elseif m.start > now + m.period then
  -- A window that is about to end would open another: it lasts for a whole period from now.
  m.start, mends = now, true
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
  if not m.own and m.opens_at_first == 0 then
    -- Others began it elsewhere.
    m.start = math.max(now, m.start)
    m.start = m.start - m.start % m.period
  end
  if rest_until <= now then rest_until = 0 end
  if other and other.ends <= now then other = nil end
  if other then
    local start, used = m.now_of(other)
    other.start, other.used = start, math.min(used + cost, 2 ^ 53 - 2 ^ 32)
  end
  m.main = { id = m.own_id, start = m.start, used = m.used, at_first = m.opens_at_first, period = m.period }
  m.own, m.other, m.rest_until, moves = m.main, other, rest_until, true
  if other or rest_until > 0 then
    m.id, m.lanes = 0, m.pack(m.main, other, rest_until)
  else
    m.id, m.lanes = m.own_id, ''
  end
end
--- refund
if m.main then
  local lane = m.own or m.main
  local start, used = m.now_of(lane)
  lane.start, lane.used = start, math.max(used - cost, 0)
  if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
else
  m.start, m.used = m.running, m.taken - cost
  if m.used < 0 then m.used = 0 end
end
--- forget
m.over = m.start + m.period
if m.main then
  m.start, m.used = m.main.start, m.main.used
  m.over = math.max(m.ends(m.main), m.other and m.other.ends or 0, m.rest_until)
end
