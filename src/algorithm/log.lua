--- library
-- What was admitted, oldest first, is entries of a slot and all units ever admitted up to its end. The first entry
-- and the last are numbers of the state; those between them are in a list, as the low 6 bytes of the slot and the total
-- in 3, as long as that is enough; then in its low 4 bytes. Those, and the slot's, are enough to tell them from the
-- last's (or 7 each, where spans or units are so large that they are not).
-- Here: the first of the list, from `index` on, of at least this slot and total, and the total before it.
local function seek(list, index, before, last, last_total, least_slot, least_total)
  local low, high, probe, slot, total = index, 2 ^ 31, index, nil, nil
  while low < high do
    local entry = redis.call('LINDEX', list, probe)
    local its_slot, its_total = -1, 0
    if entry and #entry == 14 then
      its_slot, its_total = struct.unpack('<I7I7', entry)
    elseif entry then
      if #entry == 9 then
        its_slot, its_total = struct.unpack('<I6I3', entry)
      elseif #entry == 10 then
        its_slot, its_total = struct.unpack('<I6I4', entry)
        its_total = last_total - (last_total - its_total) % 2 ^ 32
      else
        error('UNREADABLE entry')
      end
      its_slot = last - (last - its_slot) % 2 ^ 48
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
    if high == 2 ^ 31 then probe = math.min(2 * low - index, high - 1) end
  end
  return low, before, slot, total
end
--- judge
-- Slots in the list are those that were before the clock stepped back: later by the shift.
if m.shift ~= 0 and not (m.shift > 0 and m.shift + m.last < 2 ^ 53 and m.shift % 1 == 0) then error('UNREADABLE state') end
if m.first > m.last or m.first_total > m.total or m.forgotten > m.total
  or (m.forgotten >= m.first_total and m.forgotten < m.total) then
  error('UNREADABLE state')
end
if m.id ~= m.own_id then
  -- Numbers that were not written together are a stranger's.
  m.sum = function(...)
    local sum = 0
    for _, number in ipairs({ ... }) do sum = (sum * 31 + number % 4294967291) % 4294967291 end
    return sum
  end
  m.alone = function() return struct.pack('<ddd', m.reach, m.units, m.sum(m.own_id, m.reach, m.units)) end
  m.reach = m.span_micros + m.slot_micros - 1
  if not state then
    m.id, m.lanes, moves = m.own_id, m.alone(), true
  else
    -- Others were admitted: see log.rs. What is kept for them may be over for these numbers; the state itself is what
    -- whoever was admitted last counts.
    local n = { struct.unpack(m.id == 0 and '<ddddddddd' or '<ddd', state, m.lanes_at) }
    for at = 1, #n - 1 do
      if not (n[at] >= 0 and n[at] < 2 ^ 53 and n[at] % 1 == 0) then error('UNREADABLE state') end
    end
    m.main_reach, m.main_units, m.others_reach, m.others_units, m.others_until = n[1], n[2], 0, 0, 0
    if n[#n - 1] ~= (m.id == 0 and m.sum(m.total, m.last, m.shift, unpack(n, 1, 8)) or m.sum(m.id, n[1], n[2])) then
      error('UNREADABLE state')
    end
    if m.id == 0 then
      m.others_reach, m.others_units, m.others_until = n[3], n[4], n[5]
      m.forgotten, m.first, m.first_total = n[6], n[7], n[8]
      if m.first > m.last or m.first_total > m.total or m.forgotten > m.total
        or (m.forgotten >= m.first_total and m.forgotten < m.total) then
        error('UNREADABLE state')
      end
    elseif not (m.id > 0 and m.id < 2 ^ 53 and m.id % 1 == 0) then
      error('UNREADABLE state')
    end
    m.pack = function()
      local n = { m.main_reach, m.main_units, m.others_reach, m.others_units, m.others_until, unpack(m.kept) }
      n[9] = m.sum(m.total, m.last, m.shift, unpack(n))
      return struct.pack('<ddddddddd', unpack(n))
    end
    if m.last > now - now % m.slot_micros + m.span_micros then
      local back = m.last - now
      m.shift, m.last, mends = m.shift + back, now, true
      m.first, m.others_until = math.max(m.first - back, 0), math.max(m.others_until - back, 0)
    end
    m.kept = { m.forgotten, m.first, m.first_total }
    if mends and m.id == 0 then m.lanes = m.pack() end
  end
end
m.slot = now - now % m.slot_micros
if m.last > m.slot then
  m.ahead = m.last - m.slot
  m.slot = m.last
end
if m.first + m.span_micros <= m.slot and m.total > m.forgotten then
  m.old_forgotten, m.old_first, m.old_first_total = m.forgotten, m.first, m.first_total
  if m.last + m.span_micros <= m.slot then
    m.forgotten, m.dropped = m.total, 2 ^ 31
  else
    local index, before, slot, total = seek(
      m.list, 0, m.first_total, m.last + m.shift, m.total, m.slot < m.span_micros and 0 or m.slot - m.span_micros + m.shift + 1, 0)
    m.forgotten, m.dropped, m.first, m.first_total = before, index, m.last, m.total
    if slot then
      m.first, m.first_total, m.dropped = math.max(slot - m.shift, 0), total, index + 1
    end
  end
end
if m.ahead and m.ahead > m.span_micros then
  -- The last entry is as of now, wherever its slot begins: in one that is about to end it would be over too soon.
  m.ahead = m.last - now
  m.shift = m.shift + m.ahead
  m.first = math.max(m.first - m.ahead, 0)
  m.last, m.slot = now, now
  mends, m.old_first = true, nil
end
m.counted = m.total - m.forgotten
m.fits = (m.counted + cost <= m.units and m.total + cost < 2 ^ 53) or cost == 0
--- charge
m.old_first = nil
if m.kept then
  m.own_counted, m.own_first, m.own_first_total = m.counted, m.first, m.first_total
  m.forgotten, m.first, m.first_total, m.dropped = m.kept[1], m.kept[2], m.kept[3], nil
  if m.others_until <= now then m.others_reach, m.others_units, m.others_until = 0, 0, 0 end
  local until_when = m.last + m.main_reach
  if (m.main_reach ~= m.reach or m.main_units ~= m.units) and until_when > now and m.total > m.forgotten then
    m.others_reach, m.others_units = math.max(m.others_reach, m.main_reach), math.max(m.others_units, m.main_units)
    m.others_until = math.max(m.others_until, until_when)
  end
  m.main_reach, m.main_units = m.reach, m.units
  local reach, units = math.max(m.reach, m.others_reach), math.max(m.units, m.others_units)
  local latest = math.max(now, m.last)
  -- If nobody else is left, what these numbers count is all.
  if m.others_until == 0 then reach, latest, units = m.span_micros, m.slot, 2 ^ 53 end
  local enough = math.max(m.total + cost - units, 0)
  if m.total > m.forgotten and (m.first + reach <= latest or m.first_total <= enough) then
    if m.last + reach <= latest or m.total <= enough then
      m.forgotten, m.dropped = m.total, 2 ^ 31
    else
      local index, before, slot, total = seek(
        m.list, 0, m.first_total, m.last + m.shift, m.total, latest < reach and 0 or latest - reach + m.shift + 1, enough + 1)
      m.forgotten, m.dropped, m.first, m.first_total = before, index, m.last, m.total
      if slot then
        m.first, m.first_total, m.dropped = math.max(slot - m.shift, 0), total, index + 1
      end
    end
  end
  m.counted = m.total - m.forgotten
end
if m.counted == 0 then
  -- What is left of a list whose state was evicted is another log's.
  if not state then call(relative and 'PEXPIRE' or 'PEXPIREAT', m.list, '0') end
  if m.shift > 0 then m.shift, moves = 0, true end
  m.first, m.last = m.slot, m.slot
  m.first_total, m.forgotten, m.total = cost, 0, 0
elseif m.last ~= m.slot then
  if m.first_total < m.total then
    if math.max(m.units, m.others_units or 0) >= 2 ^ 31 or math.max(m.span_micros, m.others_reach or 0) >= 2 ^ 47 then
      m.entry = struct.pack('<I7I7', m.last + m.shift, m.total)
    elseif m.total < 2 ^ 24 then
      m.entry = struct.pack('<I6I3', (m.last + m.shift) % 2 ^ 48, m.total)
    else
      m.entry = struct.pack('<I6I4', (m.last + m.shift) % 2 ^ 48, m.total % 2 ^ 32)
    end
    if call('RPUSHX', m.list, m.entry) == 0 then
      -- A list must not be left without expiry: whether it may get one is seen before there is one.
      call(relative and 'PEXPIRE' or 'PEXPIREAT', m.list, '0')
      call('RPUSH', m.list, m.entry)
      moves = true
    end
  end
  m.last = m.slot
elseif m.first_total == m.total then
  m.first_total = m.total + cost
end
m.total = m.total + cost
if m.kept then
  -- What is told is what these numbers count.
  local forgotten, first, first_total = m.forgotten, m.first, m.first_total
  m.kept = { forgotten, first, first_total }
  moves = true
  if m.own_counted == 0 then
    m.forgotten, m.first, m.first_total = m.total - cost, m.last, m.total
  else
    m.forgotten = m.total - cost - m.own_counted
    m.first, m.first_total = m.own_first, m.own_first_total
  end
  m.is_charged = true
  if m.others_until > 0 then
    m.id, m.lanes = 0, m.pack()
  else
    m.id, m.lanes = m.own_id, m.alone()
    m.forgotten, m.first, m.first_total = forgotten, first, first_total
  end
end
--- refund
if m.kept then m.forgotten, m.first, m.first_total, m.dropped = m.kept[1], m.kept[2], m.kept[3], nil end
m.old_first = nil
m.forgotten = math.min(m.forgotten + cost, m.total)
if m.first_total <= m.forgotten then
  local index, _, slot, total = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.forgotten + 1)
  m.dropped, m.first, m.first_total = index, m.last, m.total
  if slot then
    m.first, m.first_total, m.dropped = math.max(slot - m.shift, 0), total, index + 1
  end
end
if m.kept then
  m.kept = { m.forgotten, m.first, m.first_total }
  if m.id == 0 then m.lanes = m.pack() end
  m.is_charged = true
end
--- forget
if m.kept and not m.is_charged then
  -- Only something is mended: what is over for these numbers may not be for others.
  m.seen = { m.forgotten, m.first, m.first_total, m.dropped }
  m.forgotten, m.first, m.first_total, m.dropped = m.kept[1], m.kept[2], m.kept[3], nil
elseif m.old_first then
  -- Only another member's state is mended: what is over is kept, as a clock that steps back may count it again.
  m.old_forgotten, m.forgotten = m.forgotten, m.old_forgotten
  m.old_first, m.first = m.first, m.old_first
  m.old_first_total, m.first_total = m.first_total, m.old_first_total
  m.old_dropped, m.dropped = m.dropped, nil
end
if m.dropped and m.dropped > 0 then
  call('LTRIM', m.list, m.dropped, '-1')
  m.dropped = nil
end
m.over = m.last
if m.total > m.forgotten then
  m.over = m.last + m.span_micros
  m.beyond = m.over % m.slot_micros
  if m.beyond > 0 then m.over = m.over - m.beyond + m.slot_micros end
end
if m.kept then m.over = math.max(m.last + math.max(m.main_reach, m.reach), m.others_until) end
--- tell
if m.seen then
  m.forgotten, m.first, m.first_total, m.dropped = m.seen[1], m.seen[2], m.seen[3], m.seen[4]
elseif m.old_dropped then
  m.forgotten, m.first, m.first_total, m.dropped = m.old_forgotten, m.old_first, m.old_first_total, m.old_dropped
end
m.more_after, m.all_after, m.cost_after = 0, 0, 0
if m.counted > 0 then
  m.more_after, m.all_after = m.first, m.last
  -- Until so many units are over there is no room for one more, or for the cost.
  if m.first_total < m.total + 1 - m.units then
    local _, _, slot = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.total + 1 - m.units)
    m.more_after = slot and math.max(slot - m.shift, 0) or m.last
  end
  if not m.fits and cost <= m.units then
    m.cost_after = m.first
    if m.first_total < m.total + cost - m.units then
      local _, _, slot = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.total + cost - m.units)
      m.cost_after = slot and math.max(slot - m.shift, 0) or m.last
    end
  end
end
