--- library
-- What was admitted, oldest first, is entries of a slot and all units ever admitted up to its end. The first entry
-- and the last are numbers of the state; those between them are in a list, as the low 6 and 4 bytes of the two, which
-- are enough to tell them from the last's (or 7 each, where spans or units are so large that they are not).
-- Here: the first of the list, from `index` on, of at least this slot and total, and the total before it.
local function seek(list, index, count, before, last, last_total, least_slot, least_total)
  local low, high, probe, slot, total = index, count, index, nil, nil
  while low < high do
    local entry = redis.call('LINDEX', list, probe)
    local its_slot, its_total = -1, 0
    if entry and #entry == 10 then
      its_slot, its_total = struct.unpack('<I6I4', entry)
      its_slot = last - (last - its_slot) % 2 ^ 48
      its_total = last_total - (last_total - its_total) % 2 ^ 32
    elseif entry then
      if #entry ~= 14 then error('UNREADABLE entry') end
      its_slot, its_total = struct.unpack('<I7I7', entry)
    end
    -- Totals grow, up to the last's; those of a stranger mostly don't.
    if entry and (its_total < before or its_total > last_total) then error('UNREADABLE entry') end
    if not entry then
      high, slot = probe, nil
    elseif its_slot >= least_slot and its_total >= least_total then
      high, slot, total = probe, its_slot, its_total
    else
      low, before = probe + 1, its_total
    end
    probe = math.floor((low + high) / 2)
    if high == count then probe = math.min(2 * low - index, high - 1) end
  end
  return low, before, slot, total
end
--- judge
m.now_slot = now - now % m.slot_micros
m.slot, m.dropped = m.now_slot, 0
if m.stamp > m.slot then m.slot = m.stamp end
m.least_slot = m.slot - m.span_micros + m.shift + 1
if m.slot < m.span_micros then m.least_slot = 0 end
if m.first < m.least_slot and m.total > m.forgotten then
  m.old_forgotten, m.old_first, m.old_first_total = m.forgotten, m.first, m.first_total
  if m.last < m.least_slot then
    m.forgotten, m.dropped = m.total, m.count
  else
    local index, before, slot, total = seek(
      m.list, 0, m.count, m.first_total, m.last, m.total, m.least_slot, 0)
    m.forgotten, m.dropped, m.first, m.first_total = before, index, m.last, m.total
    if slot then
      m.first, m.first_total, m.dropped = slot, total, index + 1
    end
  end
end
if m.stamp > m.now_slot + m.span_micros then
  m.shift = m.shift + m.stamp - m.now_slot
  m.stamp, m.slot = m.now_slot, m.now_slot
  mends, m.old_first = true, nil
end
m.counted = m.total - m.forgotten
m.fits = cost == 0 or (m.counted + cost <= m.units and m.total + cost < 2 ^ 53)
--- charge
m.old_first = nil
if m.counted == 0 then
  m.first, m.last, m.shift = m.slot, m.slot, 0
  m.first_total, m.forgotten, m.total = cost, 0, 0
elseif m.last - m.shift ~= m.slot and (m.last > m.shift or m.slot > 0) then
  if m.first_total < m.total then
    if m.count == 0 then
      -- A list must not be left without expiry: whether it may get one is seen before there is one.
      call('PEXPIRE' .. at, m.list, '0')
      moves = true
    end
    m.entry = struct.pack('<I6I4', m.last % 2 ^ 48, m.total % 2 ^ 32)
    if m.units >= 2 ^ 31 or m.span_micros >= 2 ^ 47 then m.entry = struct.pack('<I7I7', m.last, m.total) end
    m.count = call('RPUSH', m.list, m.entry)
    -- The list was evicted: the new one has no expiry yet.
    if m.count == 1 then moves = true end
  end
  m.last = m.slot + m.shift
elseif m.first_total == m.total then
  m.first_total = m.total + cost
end
m.total, m.stamp = m.total + cost, m.slot
--- refund
m.old_first = nil
m.forgotten = math.min(m.forgotten + cost, m.total)
if m.first_total <= m.forgotten then
  local index, _, slot, total = seek(m.list, m.dropped, m.count, 0, m.last, m.total, 0, m.forgotten + 1)
  m.dropped, m.first, m.first_total = index, m.last, m.total
  if slot then
    m.first, m.first_total, m.dropped = slot, total, index + 1
  end
end
--- forget
if m.old_first then
  -- Only another member's state is mended: what is over is kept, as a clock that steps back may count it again.
  m.old_forgotten, m.forgotten = m.forgotten, m.old_forgotten
  m.old_first, m.first = m.first, m.old_first
  m.old_first_total, m.first_total = m.first_total, m.old_first_total
  m.old_dropped, m.dropped = m.dropped, 0
end
if m.dropped > 0 then
  call('LTRIM', m.list, m.dropped, '-1')
  m.count, m.dropped = m.count - m.dropped, 0
end
m.over = m.stamp
if m.total > m.forgotten then
  m.over = m.last - m.shift
  if m.over < 0 then m.over = 0 end
  m.over = m.over + m.span_micros
  m.beyond = m.over % m.slot_micros
  if m.beyond > 0 then m.over = m.over - m.beyond + m.slot_micros end
end
--- tell
if m.old_dropped then
  m.forgotten, m.first, m.first_total, m.dropped = m.old_forgotten, m.old_first, m.old_first_total, m.old_dropped
end
m.more_after, m.all_after, m.cost_after = 0, 0, 0
if m.counted > 0 then
  m.more_after = math.max(m.first - m.shift, 0)
  m.all_after = math.max(m.last - m.shift, 0)
  -- Until so many units are over there is no room for one more, or for the cost.
  if m.first_total < m.total + 1 - m.units then
    local _, _, slot = seek(m.list, m.dropped, m.count, 0, m.last, m.total, 0, m.total + 1 - m.units)
    m.more_after = math.max((slot or m.last) - m.shift, 0)
  end
  if not m.fits and cost <= m.units then
    m.cost_after = math.max(m.first - m.shift, 0)
    if m.first_total < m.total + cost - m.units then
      local _, _, slot = seek(m.list, m.dropped, m.count, 0, m.last, m.total, 0, m.total + cost - m.units)
      m.cost_after = math.max((slot or m.last) - m.shift, 0)
    end
  end
end
