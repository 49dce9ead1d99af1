--- judge
m.at = now
if m.id ~= m.period then
  if not state then
    m.id, m.lanes, moves = m.period, '', true
  else
    -- Others were admitted: see lanes.rs. An id is the period.
    local lane = function(id, stamp, previous, current, ends)
      for _, number in ipairs({ id, stamp, previous, current, ends }) do
        if not (number >= 0 and number < 2 ^ 53 and number % 1 == 0) then error('UNREADABLE state') end
      end
      if id == 0 then error('UNREADABLE state') end
      return { id = id, stamp = stamp, previous = previous, current = current, ends = ends }
    end
    -- Numbers that were not written together are a stranger's.
    m.sum = function(...)
      local sum = 0
      for _, number in ipairs({ ... }) do sum = (sum * 31 + number % 4294967291) % 4294967291 end
      return sum
    end
    m.rest_until = 0
    if m.id ~= 0 then
      m.main = lane(m.id, m.stamp, m.previous, m.current, 0)
    else
      local main, other, stamp, previous, current, ends, rest_until, sum = struct.unpack('<dddddddd', state, m.lanes_at)
      if sum ~= m.sum(main, m.stamp, m.previous, m.current, other, stamp, previous, current, ends, rest_until) then
        error('UNREADABLE state')
      end
      if not (rest_until >= 0 and rest_until < 2 ^ 53 and rest_until % 1 == 0) then error('UNREADABLE state') end
      m.main, m.rest_until = lane(main, m.stamp, m.previous, m.current, 0), rest_until
      if other ~= 0 then m.other = lane(other, stamp, previous, current, ends) end
    end
    m.own = m.main.id == m.period and m.main or m.other and m.other.id == m.period and m.other
    m.pack = function(main, other, rest_until)
      other = other or { id = 0, stamp = 0, previous = 0, current = 0, ends = 0 }
      return struct.pack('<dddddddd', main.id, other.id, other.stamp, other.previous, other.current, other.ends, rest_until,
        m.sum(main.id, main.stamp, main.previous, main.current,
          other.id, other.stamp, other.previous, other.current, other.ends, rest_until))
    end
    m.now_of = function(lane)
      local at = math.max(now, lane.stamp)
      local start = at - at % lane.id
      if lane.stamp >= start then return at, lane.previous, lane.current end
      return at, lane.stamp + lane.id >= start and lane.current or 0, 0
    end
    m.ends = function(lane)
      if lane.previous + lane.current == 0 then return lane.stamp end
      return lane.stamp - lane.stamp % lane.id + lane.id * (lane.current > 0 and 2 or 1)
    end
    local stamp = (m.own or m.main).stamp
    if stamp > now + 2 * m.period then
      if m.rest_until > 0 then m.rest_until = math.max(m.rest_until - (stamp - now), 1) end
      for _, lane in ipairs({ m.main, m.other }) do
        if lane.stamp > now then
          local covered = lane.id - lane.stamp % lane.id
          lane.ends = math.max(lane.ends - (lane.stamp - now), 0)
          lane.current = math.min(lane.current + math.ceil(lane.previous * covered / lane.id), 2 ^ 53 - 2 ^ 32)
          lane.stamp, lane.previous = now, 0
        end
      end
      mends = true
      if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
    end
    if m.own then
      m.stamp, m.previous, m.current = m.own.stamp, m.own.previous, m.own.current
    elseif m.rest_until > 0 then
      m.stamp = math.max(math.ceil(m.rest_until / m.period) - 2, 0) * m.period
      m.previous, m.current = m.units, m.units
    else
      m.stamp, m.previous, m.current = m.main.stamp, m.main.previous, m.main.current
    end
  end
elseif m.stamp > now + 2 * m.period then
  -- Now is elsewhere in its window: the whole estimate becomes the count of the running one.
  local covered = m.ticks - math.floor(m.stamp % m.period / m.tick_micros)
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
    other.stamp, other.previous, other.current = m.now_of(other)
    other.current = math.min(other.current + cost, 2 ^ 53 - 2 ^ 32)
  end
  m.main = { id = m.period, stamp = m.stamp, previous = m.previous, current = m.current }
  m.own, m.other, m.rest_until, moves = m.main, other, rest_until, true
  if other or rest_until > 0 then
    m.id, m.lanes = 0, m.pack(m.main, other, rest_until)
  else
    m.id, m.lanes = m.period, ''
  end
end
--- refund
if m.main then
  local lane = m.own or m.main
  lane.stamp, lane.previous, lane.current = m.now_of(lane)
  lane.previous = math.max(lane.previous + math.min(lane.current - cost, 0), 0)
  lane.current = math.max(lane.current - cost, 0)
  if m.id == 0 then m.lanes = m.pack(m.main, m.other, m.rest_until) end
else
  m.previous, m.current = m.weighs, m.counts - cost
  m.stamp = m.at
  if m.current < 0 then
    m.previous = m.previous + m.current
    m.current = 0
  end
  if m.previous < 0 then m.previous = 0 end
end
--- forget
m.over = m.stamp - m.stamp % m.period + m.period
if m.current > 0 then m.over = m.over + m.period end
if m.main then
  m.stamp, m.previous, m.current = m.main.stamp, m.main.previous, m.main.current
  m.over = math.max(m.ends(m.main), m.other and m.other.ends or 0, m.rest_until)
end
